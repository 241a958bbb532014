CREATE TABLE "pond" (
	"id" serial PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"depth" integer DEFAULT 1
);
