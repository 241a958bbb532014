ALTER TABLE "frog" ADD COLUMN "grams" integer NOT NULL;--> statement-breakpoint
ALTER TABLE "frog" DROP COLUMN "weight";--> statement-breakpoint
CREATE INDEX "heaviest" ON "frog" USING btree ("pond_id","grams");
