//! `froglet bench` without the server: builds in a minute. `pgbench` needs `--froglet PATH` here.
//!
//! ```text
//!   cargo run --release -p froglet-bench --example bench -- tpcc --workers 1 --profile
//! ```

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: froglet_bench::Args,
}

fn main() -> anyhow::Result<()> {
    froglet_bench::main(Command::parse().args)
}
