CREATE TABLE "frog" (
	"id" serial PRIMARY KEY NOT NULL,
	"name" varchar(20) NOT NULL,
	"pond_id" integer,
	"weight" double precision,
	"born" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "frog" ADD CONSTRAINT "frog_pond_id_pond_id_fk" FOREIGN KEY ("pond_id") REFERENCES "public"."pond"("id") ON DELETE cascade ON UPDATE no action;
