ALTER TABLE "pond" RENAME COLUMN "name" TO "title";--> statement-breakpoint
ALTER TABLE "pond" ALTER COLUMN "depth" SET DATA TYPE numeric(6, 2);--> statement-breakpoint
ALTER TABLE "frog" ALTER COLUMN "name" SET DATA TYPE varchar(40);--> statement-breakpoint
ALTER TABLE "frog" ADD CONSTRAINT "frog_name_pond" UNIQUE("name","pond_id");
