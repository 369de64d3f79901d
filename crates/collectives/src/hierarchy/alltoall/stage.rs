//! The groups of a stage, their teams, and how many rows and columns the matrices of ranks have.

use std::collections::BTreeMap;
use std::ops::Range;

/// The groups of a level and the messages between them, in virtual ranks.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The first rank of each group, and the number of all.
    pub(super) starts: Vec<u32>,
    /// The group of each rank.
    pub(super) groups: Vec<u32>,
    /// The first group of the surrounding group of each, and the end of those.
    pub(super) siblings: Vec<(u32, u32)>,
    /// The number of the first team of each group, and that of all.
    pub(super) teams: Vec<u32>,
    /// Rows of the matrices of all ranks before each, and of all.
    pub(super) rows: Vec<u64>,
}

/// Some ranks of a group, with a message to each other group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Team {
    pub(super) group: u32,
    /// Its number among the teams of the surrounding group.
    pub(super) number: u32,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// The position of a rank in a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagePosition {
    pub(super) group: u32,
    /// Its first rank, and the number of its ranks.
    pub(super) start: u32,
    pub(super) len: u32,
    /// The groups of the surrounding group, and its first rank and number of ranks.
    pub(super) first_sibling: u32,
    pub(super) end_sibling: u32,
    pub(super) outer_start: u32,
    pub(super) outer_len: u32,
}

/// The begin of part `part` of `parts`.
fn begin_of_part(len: u32, parts: u32, part: u32) -> u32 {
    (u64::from(len) * u64::from(part) / u64::from(parts)) as u32
}

/// The part that contains the element `at`.
pub(super) fn part_of(len: u32, parts: u32, at: u32) -> u32 {
    (((u64::from(at) + 1) * u64::from(parts) - 1) / u64::from(len)) as u32
}

/// The position in a group of `len` ranks that receives the message of a team out of `teams`. All are different if
/// there are enough ranks, and far from each other, so that they are in different subgroups.
pub(super) fn receiving_position(team: u32, teams: u32, len: u32) -> u32 {
    if teams < len { begin_of_part(len, teams, team) } else { team % len }
}

impl Team {
    pub(super) fn len(&self) -> u32 {
        self.end - self.first
    }
}

impl StagePosition {
    /// The number of groups that its group has messages for.
    pub(super) fn others(&self) -> u32 {
        self.end_sibling - self.first_sibling - 1
    }

    /// The group of this number among these: those after the own one come first, so that all groups begin with
    /// different ones.
    pub(super) fn other(&self, number: u32) -> u32 {
        let group = self.group + 1 + number;
        if group < self.end_sibling { group } else { group - self.end_sibling + self.first_sibling }
    }

    /// The number of its group among those that another one has messages for.
    pub(super) fn number_in_others_of(&self, group: u32) -> u32 {
        let siblings = self.end_sibling - self.first_sibling;
        (self.group + siblings - group - 1) % siblings
    }

    /// Columns for the groups after its own.
    fn columns_after(&self) -> u32 {
        self.outer_start + self.outer_len - self.start - self.len
    }

    /// The other groups of a rank at a position in a team.
    pub(super) fn others_of_member(&self, team: Team, position: u32) -> Range<u32> {
        let begin = |position| begin_of_part(self.others(), team.len(), position);
        begin(position)..begin(position + 1)
    }
}

impl Stage {
    /// Groups that begin with these ranks, with at most this number of coordinators.
    pub(super) fn new(starts: Vec<u32>, outer: &[u32], coordinators: u32, rows: Vec<u64>) -> Self {
        let mut groups = Vec::new();
        let mut teams = vec![0];
        for (group, ends) in (0..).zip(starts.windows(2)) {
            groups.resize(ends[1] as usize, group);
            teams.push(teams[group as usize] + (ends[1] - ends[0]).min(coordinators));
        }
        let mut siblings = Vec::new();
        for ends in outer.windows(2) {
            let end = groups.get(ends[1] as usize).copied().unwrap_or(starts.len() as u32 - 1);
            siblings.resize(end as usize, (groups[ends[0] as usize], end));
        }
        Self { starts, groups, siblings, teams, rows }
    }

    pub(super) fn position(&self, vrank: u32) -> StagePosition {
        let group = self.groups[vrank as usize];
        let (first_sibling, end_sibling) = self.siblings[group as usize];
        let start = self.starts[group as usize];
        let outer_start = self.starts[first_sibling as usize];
        StagePosition {
            group,
            start,
            len: self.len(group),
            first_sibling,
            end_sibling,
            outer_start,
            outer_len: self.starts[end_sibling as usize] - outer_start,
        }
    }

    /// The number of ranks of a group.
    pub(super) fn len(&self, group: u32) -> u32 {
        self.starts[group as usize + 1] - self.starts[group as usize]
    }

    /// Rows of the matrices of some ranks.
    pub(super) fn rows(&self, vranks: Range<u32>) -> u32 {
        (self.rows[vranks.end as usize] - self.rows[vranks.start as usize]) as u32
    }

    pub(super) fn rows_of(&self, vrank: u32) -> u32 {
        self.rows(vrank..vrank + 1)
    }

    pub(super) fn rows_of_team(&self, team: Team) -> u32 {
        self.rows(team.first..team.end)
    }

    pub(super) fn team(&self, group: u32, number: u32) -> Team {
        let (first, of_group) = (self.starts[group as usize], self.teams[group as usize]);
        let (len, teams) = (self.len(group), self.teams[group as usize + 1] - of_group);
        let begin = |team| first + begin_of_part(len, teams, team);
        let before = self.teams[self.siblings[group as usize].0 as usize];
        Team { group, number: of_group + number - before, first: begin(number), end: begin(number + 1) }
    }

    pub(super) fn team_of(&self, vrank: u32) -> Team {
        let group = self.groups[vrank as usize];
        let teams = self.teams[group as usize + 1] - self.teams[group as usize];
        self.team(group, part_of(self.len(group), teams, vrank - self.starts[group as usize]))
    }

    /// The number of teams within the surrounding group.
    pub(super) fn teams_within(&self, position: &StagePosition) -> u32 {
        self.teams[position.end_sibling as usize] - self.teams[position.first_sibling as usize]
    }

    /// The teams of other groups whose messages a rank receives, in their order.
    pub(super) fn for_each_source(&self, vrank: u32, mut each: impl FnMut(Team)) {
        let position = self.position(vrank);
        let (at, teams) = (vrank - position.start, self.teams_within(&position));
        let mut visit = |number: u32| {
            let index = self.teams[position.first_sibling as usize] + number;
            let groups = &self.teams[position.first_sibling as usize..=position.end_sibling as usize];
            let group = position.first_sibling + groups.partition_point(|first| *first <= index) as u32 - 1;
            if group != position.group {
                each(self.team(group, index - self.teams[group as usize]));
            }
        };
        if teams < position.len {
            let number = part_of(position.len, teams, at);
            if begin_of_part(position.len, teams, number) == at {
                visit(number);
            }
        } else {
            (at..teams).step_by(position.len as usize).for_each(visit);
        }
    }

    /// Columns for the other groups before this number, in the view by target.
    pub(super) fn columns_before(&self, position: &StagePosition, number: u32) -> u32 {
        let group = position.group + 1 + number;
        if group <= position.end_sibling {
            self.starts[group as usize] - position.start - position.len
        } else {
            let group = group - position.end_sibling + position.first_sibling;
            position.columns_after() + self.starts[group as usize] - position.outer_start
        }
    }

    /// Columns for some of the other groups.
    pub(super) fn columns(&self, position: &StagePosition, others: &Range<u32>) -> u32 {
        self.columns_before(position, others.end) - self.columns_before(position, others.start)
    }

    /// The group of a column in the view by target, its first column there, and in the order of receivers.
    pub(super) fn target_at(&self, position: &StagePosition, column: u32) -> (u32, u32, u32) {
        let (after, others) = (position.columns_after(), position.outer_len - position.len);
        let first_of = |group: u32| self.starts[group as usize] - position.outer_start;
        if column >= others {
            (position.group, others, first_of(position.group))
        } else if column < after {
            let end = position.start + position.len;
            let group = self.groups[(end + column) as usize];
            (group, self.starts[group as usize] - end, first_of(group))
        } else {
            let group = self.groups[(position.outer_start + column - after) as usize];
            (group, after + first_of(group), first_of(group))
        }
    }

    /// Rows of the matrices after this stage, before each rank.
    pub(super) fn next_rows(&self) -> Vec<u64> {
        let mut rows = vec![0; self.groups.len()];
        let mut outer = 0;
        while outer < self.siblings.len() {
            let end = self.siblings[outer].1 as usize;
            let all_teams: Vec<Team> = (outer as u32..end as u32)
                .flat_map(|group| {
                    (0..self.teams[group as usize + 1] - self.teams[group as usize])
                        .map(move |number| self.team(group, number))
                })
                .collect();
            let count = all_teams.len() as u32;
            // Groups of one size receive alike, but nothing from themselves.
            let mut by_len: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            for group in outer..end {
                let (start, len) = (self.starts[group], self.len(group as u32));
                let received = by_len.entry(len).or_insert_with(|| {
                    let mut received = vec![0; len as usize];
                    for team in &all_teams {
                        let at = receiving_position(team.number, count, len);
                        received[at as usize] += u64::from(self.rows_of_team(*team));
                    }
                    received
                });
                for at in 0..len {
                    let vrank = start + at;
                    rows[vrank as usize] = u64::from(self.rows_of(vrank)) + received[at as usize];
                }
                let own = self.teams[group] - self.teams[outer]..self.teams[group + 1] - self.teams[outer];
                for team in &all_teams[own.start as usize..own.end as usize] {
                    let vrank = start + receiving_position(team.number, count, len);
                    rows[vrank as usize] -= u64::from(self.rows_of_team(*team));
                }
            }
            outer = end;
        }
        let mut sum = 0;
        std::iter::once(0)
            .chain(rows.into_iter().map(|rows| {
                sum += rows;
                sum
            }))
            .collect()
    }

    /// Blocks that a rank receives within its team for other groups, with its own.
    pub(super) fn blocks_of_member(&self, vrank: u32) -> u64 {
        let (position, team) = (self.position(vrank), self.team_of(vrank));
        if team.len() == 1 {
            return 0;
        }
        let others = position.others_of_member(team, vrank - team.first);
        u64::from(self.rows_of_team(team)) * u64::from(self.columns(&position, &others))
    }

    /// Whether some team has several ranks that exchange.
    pub(super) fn has_teams(&self) -> bool {
        (0..self.siblings.len()).any(|group| {
            let teams = self.teams[group + 1] - self.teams[group];
            self.siblings[group].1 - self.siblings[group].0 > 1 && self.len(group as u32) > teams
        })
    }
}
