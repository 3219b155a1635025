-- What `prisma migrate` makes of this model:
--
--   enum OutboxStatus { PENDING PROCESSED FAILED }
--
--   model Outbox {
--     id          String       @id @default(uuid())
--     topic       String
--     payload     Json
--     status      OutboxStatus @default(PENDING)
--     retries     Int          @default(0)
--     createdAt   DateTime     @default(now())
--     processedAt DateTime?
--
--     @@index([status, createdAt])
--   }

-- CreateEnum
CREATE TYPE "OutboxStatus" AS ENUM ('PENDING', 'PROCESSED', 'FAILED');

-- CreateTable
CREATE TABLE "Outbox" (
    "id" TEXT NOT NULL,
    "topic" TEXT NOT NULL,
    "payload" JSONB NOT NULL,
    "status" "OutboxStatus" NOT NULL DEFAULT 'PENDING',
    "retries" INTEGER NOT NULL DEFAULT 0,
    "createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "processedAt" TIMESTAMP(3),

    CONSTRAINT "Outbox_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "Outbox_status_createdAt_idx" ON "Outbox"("status", "createdAt");
