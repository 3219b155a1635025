-- The tables of TicketFlow as its decision record has them (EF Core on PostgreSQL). outboxd changes none of them.

CREATE TABLE "Tickets" (
    "Id" uuid NOT NULL,
    "Title" text NOT NULL,
    "Status" text NOT NULL,
    "AssignedTo" text NULL,
    "CreatedAt" timestamp with time zone NOT NULL,
    CONSTRAINT "PK_Tickets" PRIMARY KEY ("Id")
);

-- Written by the API, in the transaction that writes the ticket.
CREATE TABLE "Outbox" (
    "Id" uuid NOT NULL,
    "Type" text NOT NULL,
    "PayloadJson" text NOT NULL,
    "CorrelationId" text NOT NULL,
    "OccurredAt" timestamp with time zone NOT NULL,
    "DispatchedAt" timestamp with time zone NULL,
    CONSTRAINT "PK_Outbox" PRIMARY KEY ("Id")
);

CREATE INDEX "IX_Outbox_Pending" ON "Outbox" ("OccurredAt", "Id") WHERE "DispatchedAt" IS NULL;

-- What the worker has handled. An event goes to two queues, so an id is there once for each of their consumers.
CREATE TABLE "ProcessedEvents" (
    "EventId" uuid NOT NULL,
    "Consumer" text NOT NULL,
    "ProcessedAt" timestamp with time zone NOT NULL,
    CONSTRAINT "PK_ProcessedEvents" PRIMARY KEY ("EventId", "Consumer")
);

-- The metrics, where the worker keeps them in the database: application.toml.
CREATE TABLE "TicketMetrics" (
    "Type" text NOT NULL,
    "Total" bigint NOT NULL,
    "LastAt" timestamp with time zone NOT NULL,
    CONSTRAINT "PK_TicketMetrics" PRIMARY KEY ("Type")
);
