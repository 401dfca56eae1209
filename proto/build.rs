//! Compiles `drover/v1/*.proto` without a `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=drover");
    let descriptors = protox::compile(["drover/v1/agent.proto"], ["."])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
