// A program that shows what it finds, line by line, for the same program on another server.
function show(what, found) {
  const plain = JSON.parse(JSON.stringify(found === undefined ? null : found));
  console.log(`${what}: ${JSON.stringify(scrub(plain))}`);
}

// Without what the clock says.
function scrub(value) {
  if (Array.isArray(value)) return value.map(scrub);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([name]) => !/^(created|updated)_?at$/i.test(name));
  return Object.fromEntries(entries.map(([name, inner]) => [name, scrub(inner)]));
}

function run(program) {
  program(process.argv[2]).then(() => process.exit(0), (error) => {
    console.error(error, error.parent || error.driverError || "", error.sql || error.query || "");
    process.exit(1);
  });
}

module.exports = { run, show };
