-- The tables of TicketFlow as its migrations (EF Core on PostgreSQL) make them. outboxd changes none of them.

CREATE TABLE "Tickets" (
    "Id" uuid NOT NULL,
    "Title" text NOT NULL,
    "Status" text NOT NULL,
    "CreatedAt" timestamp with time zone NOT NULL,
    CONSTRAINT "PK_Tickets" PRIMARY KEY ("Id")
);

-- Written by the application, in the transaction that writes the ticket.
CREATE TABLE "OutboxMessages" (
    "Id" uuid NOT NULL,
    "Type" text NOT NULL,
    "PayloadJson" text NOT NULL,
    "CorrelationId" text NOT NULL,
    "OccurredAt" timestamp with time zone NOT NULL,
    "DispatchedAt" timestamp with time zone NULL,
    "Attempts" integer NOT NULL DEFAULT 0,
    "Error" text NULL,
    CONSTRAINT "PK_OutboxMessages" PRIMARY KEY ("Id")
);

-- The ids that were published; one of these is never published again.
CREATE TABLE "ProcessedEvents" (
    "EventId" uuid NOT NULL,
    "ProcessedAt" timestamp NOT NULL,
    CONSTRAINT "PK_ProcessedEvents" PRIMARY KEY ("EventId")
);
