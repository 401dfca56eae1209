//! The order of trials.

use std::collections::BTreeSet;

use super::common::matrix;
use drover_matrix::plan;
use drover_model::TrialId;

#[test]
fn expect_blocks_by_machine_state_and_rounds_inside_them() {
    let kernels = ("cpus: [1, 2]", "cpus: [1, 2]\n  kernel: [\"6.10\", running]");
    let matrix = matrix(&[kernels]);
    let plan = plan(&matrix, 7);
    let states: Vec<_> = plan
        .blocks()
        .iter()
        .map(|block| (block.kernel.as_deref().unwrap(), block.cpus.as_deref().unwrap()))
        .collect();
    assert_eq!(states, [("6.10", "1"), ("6.10", "2"), ("running", "1"), ("running", "2")]);
    let trials: Vec<TrialId> = plan.iter().collect();
    assert_eq!(trials.len(), 4 * 6 * 3);
    for (block, trials) in plan.blocks().iter().zip(trials.chunks(18)) {
        let cells: BTreeSet<u32> = plan.cells()[block.cells.clone()].iter().copied().collect();
        for (round, trials) in (1..).zip(trials.chunks(6)) {
            assert!(trials.iter().all(|trial| trial.repetition == round));
            assert_eq!(trials.iter().map(|trial| trial.cell).collect::<BTreeSet<_>>(), cells);
        }
    }
}

#[test]
fn expect_rounds_in_different_orders_that_the_seed_fixes() {
    let matrix = matrix(&[]);
    let trials = |seed| plan(&matrix, seed).iter().collect::<Vec<_>>();
    assert_eq!(trials(1), trials(1));
    assert_ne!(trials(1), trials(2));
    let cells = |round: usize| trials(1)[round * 6..][..6].iter().map(|trial| trial.cell).collect::<Vec<_>>();
    assert!(cells(0) != cells(1) || cells(1) != cells(2));
}

#[test]
fn expect_the_order_of_a_known_seed_to_stay_for_ever() {
    // A run that is resumed makes its plan again; a changed order here would break that.
    let trials: Vec<String> = plan(&matrix(&[]), 42).iter().take(8).map(|trial| trial.to_string()).collect();
    insta::assert_snapshot!(trials.join(" "));
}

#[test]
fn expect_every_repetition_of_a_cell_in_a_row_when_the_order_is_declared() {
    let matrix = matrix(&[("repeat: 3", "repeat: 2\norder: declared")]);
    let trials: Vec<String> = plan(&matrix, 1).iter().take(5).map(|trial| trial.to_string()).collect();
    assert_eq!(trials, ["c0r1", "c0r2", "c1r1", "c1r2", "c2r1"]);
}

#[test]
fn expect_all_trials_mixed_when_the_order_is_shuffled() {
    let matrix = matrix(&[("repeat: 3", "repeat: 3\norder: shuffled")]);
    let trials: Vec<TrialId> = plan(&matrix, 1).iter().collect();
    assert_eq!(trials.iter().collect::<BTreeSet<_>>().len(), 36);
    assert!(trials.windows(2).any(|pair| pair[0].repetition > pair[1].repetition));
}

#[test]
fn expect_no_trials_of_excluded_cells() {
    let matrix = matrix(&[("roles:", "exclude: [{ when: servers == 30 and cpus == 1 }]\nroles:")]);
    let plan = plan(&matrix, 1);
    assert_eq!(plan.trials(), 30);
    assert!(plan.iter().all(|trial| matrix.cell(trial.cell).unwrap().excluded.is_none()));
}

#[test]
fn expect_included_machine_states_behind_the_declared_ones() {
    let include =
        "include: [{ cpus: 8, servers: 3, mode: wait }, { cpus: 2, servers: 99, mode: wait }]\nroles:";
    let plan = plan(&matrix(&[("roles:", include)]), 1);
    let cpus: Vec<_> =
        plan.blocks().iter().map(|block| (block.cpus.as_deref().unwrap(), block.cells.len())).collect();
    assert_eq!(cpus, [("1", 6), ("2", 7), ("8", 1)]);
}
