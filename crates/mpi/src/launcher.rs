//! Detects which MPI started this process, from the environment that its launcher set.

/// A family of MPIs whose launchers and libraries are compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Open MPI and its derivatives.
    OpenMpi,
    /// MPICH and its derivatives, as Intel MPI and MVAPICH.
    Mpich,
    /// Another one, or a launcher that serves several, as `srun`.
    Unknown,
}

impl std::fmt::Display for Flavor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Flavor::OpenMpi => "Open MPI",
            Flavor::Mpich => "MPICH",
            Flavor::Unknown => "an unknown MPI",
        })
    }
}

/// The MPI whose launcher (`mpirun`, `mpiexec`, `srun`) started this process; none if it was started without one.
///
/// `srun` counts only for a step of several tasks: the script of a batch job sees the job's variables too, and runs
/// once.
pub fn running_under_mpi() -> Option<Flavor> {
    Some(Launcher::detect()?.flavor)
}

/// Whether this process prints what all ranks of a node would print: the first rank, or a process without a launcher.
pub(crate) fn is_node_leader() -> bool {
    is_leader(|name| std::env::var(name).ok())
}

fn is_leader(variable: impl Fn(&str) -> Option<String>) -> bool {
    // The rank on the node, if the launcher sets it, else that in the world.
    const RANKS: [&str; 7] = [
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "SLURM_PROCID",
    ];
    RANKS.into_iter().find_map(variable).is_none_or(|rank| rank.trim() == "0")
}

/// The launcher, as detected from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    pub(crate) flavor: Flavor,
    /// The number of processes, if known.
    pub(crate) size: Option<u32>,
}

impl Launcher {
    pub(crate) fn detect() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| variable(name).is_some();
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        let step = number("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1 && set("SLURM_PROCID"));
        // Launchers start one another (mpirun uses srun), so the innermost, the most specific, is tested first.
        if set("OMPI_COMM_WORLD_RANK") || set("OMPI_COMM_WORLD_SIZE") {
            return Some(Self { flavor: Flavor::OpenMpi, size: number("OMPI_COMM_WORLD_SIZE") });
        }
        if set("PMI_RANK") && set("PMI_SIZE") {
            let hydra = ["MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD"].into_iter().any(set);
            let flavor = if hydra || step.is_none() { Flavor::Mpich } else { Flavor::Unknown };
            return Some(Self { flavor, size: number("PMI_SIZE") });
        }
        (step.is_some() || set("PMIX_RANK")).then_some(Self { flavor: Flavor::Unknown, size: step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<(Flavor, Option<u32>)> {
        let found = Launcher::from_variables(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
        });
        found.map(|launcher| (launcher.flavor, launcher.size))
    }

    #[test]
    fn the_first_rank_of_a_node_is_its_leader() {
        let leads = |variables: &[(&str, &str)]| {
            is_leader(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string()))
        };
        assert!(leads(&[]));
        assert!(leads(&[("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_LOCAL_RANK", "0")]));
        assert!(!leads(&[("PMI_RANK", "1")]));
    }

    #[test]
    fn launchers_are_told_apart() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1"), ("PMIX_RANK", "1")];
        assert_eq!(read(&open_mpi), Some((Flavor::OpenMpi, Some(4))));
        let hydra = [("PMI_RANK", "0"), ("PMI_SIZE", "3"), ("PMI_FD", "6"), ("MPI_LOCALRANKID", "0")];
        assert_eq!(read(&hydra), Some((Flavor::Mpich, Some(3))));
        assert_eq!(read(&hydra[..2]), Some((Flavor::Mpich, Some(3))));
        assert_eq!(read(&[("PMIX_RANK", "0")]), Some((Flavor::Unknown, None)));
    }

    #[test]
    fn slurm_counts_only_for_a_step_of_several_tasks() {
        let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_NTASKS", "8")];
        assert_eq!(read(&step), Some((Flavor::Unknown, Some(8))));
        let batch_script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(read(&batch_script), None);
        let one_task = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(read(&one_task), None);
    }

    #[test]
    fn a_launcher_inside_slurm_wins_over_slurm() {
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
        let with = |more: &[(&'static str, &'static str)]| read(&[&slurm[..], more].concat());
        assert_eq!(with(&[("OMPI_COMM_WORLD_SIZE", "16")]), Some((Flavor::OpenMpi, Some(16))));
        let hydra = [("PMI_RANK", "0"), ("PMI_SIZE", "16"), ("MPI_LOCALNRANKS", "8")];
        assert_eq!(with(&hydra), Some((Flavor::Mpich, Some(16))));
        assert_eq!(with(&hydra[..2]), Some((Flavor::Unknown, Some(16))));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("PMI_FD", "3"), ("MPICH_HOME", "/opt/mpich")]), None);
    }
}
