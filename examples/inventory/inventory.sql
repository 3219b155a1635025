-- The database of Inventory.API: its products, and the messages that could not be published at once.

CREATE TABLE "Products" (
    "Id" uuid NOT NULL,
    "Name" text NOT NULL,
    "Price" numeric(18, 2) NOT NULL,
    "CreatedAt" timestamp with time zone NOT NULL,
    CONSTRAINT "PK_Products" PRIMARY KEY ("Id")
);

CREATE TABLE "PendingMessages" (
    "Id" uuid NOT NULL,
    "MessageType" text NOT NULL,
    "MessageKey" text NULL,
    "Payload" text NOT NULL,
    "Headers" text NULL,
    "CreatedAt" timestamp with time zone NOT NULL,
    "SentAt" timestamp with time zone NULL,
    "RetryCount" integer NOT NULL DEFAULT 0,
    "LastError" text NULL,
    CONSTRAINT "PK_PendingMessages" PRIMARY KEY ("Id")
);

CREATE INDEX "IX_PendingMessages_Unsent" ON "PendingMessages" ("CreatedAt", "Id") WHERE "SentAt" IS NULL;
