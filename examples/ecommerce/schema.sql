-- The orders, and the outbox that is written in the same transaction.

CREATE TABLE "Orders" (
    "Id" uuid PRIMARY KEY,
    "CustomerId" uuid NOT NULL,
    "TotalAmount" numeric(18, 2) NOT NULL,
    "Status" text NOT NULL,
    "CreatedAt" timestamptz NOT NULL
);

CREATE TABLE "OutboxEvents" (
    "Id" uuid PRIMARY KEY,
    "EventType" text NOT NULL,
    "EventData" jsonb NOT NULL,
    "CreatedAt" timestamptz NOT NULL,
    "IsProcessed" boolean NOT NULL DEFAULT false,
    "ProcessedAt" timestamptz,
    "RetryCount" integer NOT NULL DEFAULT 0,
    "ProcessingStartedAt" timestamptz,
    "SagaId" uuid,
    "SagaStep" integer
);

CREATE INDEX "IX_OutboxEvents_IsProcessed_CreatedAt" ON "OutboxEvents" ("IsProcessed", "CreatedAt")
    WHERE NOT "IsProcessed";

-- The same outbox in four parts, by hash of the order's id: one order has all its events in one of them.
CREATE TABLE "OutboxEvents_Partition_0" (LIKE "OutboxEvents" INCLUDING ALL);
CREATE TABLE "OutboxEvents_Partition_1" (LIKE "OutboxEvents" INCLUDING ALL);
CREATE TABLE "OutboxEvents_Partition_2" (LIKE "OutboxEvents" INCLUDING ALL);
CREATE TABLE "OutboxEvents_Partition_3" (LIKE "OutboxEvents" INCLUDING ALL);
