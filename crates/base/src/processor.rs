//! The processor of this machine.

/// The name of the processor as the system tells it, or else its architecture.
pub fn processor_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}
