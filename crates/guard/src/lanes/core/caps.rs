//! How many flights each bounded key and each target has in the lane, and how many it may have.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::rank::Claim;

#[derive(Debug, Default)]
pub(super) struct Caps {
    keys: HashMap<u64, usize>,
    targets: HashMap<u64, Target>,
}

#[derive(Debug, Default)]
struct Target {
    flying: usize,
    most: Option<usize>,
}

impl Caps {
    pub(super) fn start(&mut self, claim: Claim) {
        if let Some(key) = claim.key {
            *self.keys.entry(key).or_default() += 1;
        }
        if let Some(target) = claim.target {
            self.targets.entry(target).or_default().flying += 1;
        }
    }

    pub(super) fn end(&mut self, claim: Claim) {
        if let Some(Entry::Occupied(mut flying)) = claim.key.map(|key| self.keys.entry(key)) {
            *flying.get_mut() -= 1;
            if *flying.get() == 0 {
                flying.remove();
            }
        }
        if let Some(Entry::Occupied(mut target)) = claim.target.map(|target| self.targets.entry(target)) {
            target.get_mut().flying -= 1;
            if target.get().flying == 0 && target.get().most.is_none() {
                target.remove();
            }
        }
    }

    pub(super) fn cap(&mut self, target: u64, most: Option<usize>) {
        self.targets.entry(target).or_default().most = most;
        self.targets.retain(|_, target| target.flying > 0 || target.most.is_some());
    }

    pub(super) fn uncap_all_but(&mut self, kept: &[u64]) {
        for (target, state) in &mut self.targets {
            if !kept.contains(target) {
                state.most = None;
            }
        }
        self.targets.retain(|_, target| target.flying > 0 || target.most.is_some());
    }

    /// How many more flights a key with this limit may start.
    pub(super) fn key_room(&self, key: u64, parallel: usize) -> usize {
        if parallel == usize::MAX {
            return usize::MAX;
        }
        parallel.saturating_sub(self.keys.get(&key).copied().unwrap_or(0))
    }

    pub(super) fn target_room(&self, target: Option<u64>) -> usize {
        let Some(target) = target.and_then(|target| self.targets.get(&target)) else { return usize::MAX };
        target.most.map_or(usize::MAX, |most| most.saturating_sub(target.flying))
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.keys.is_empty() && self.targets.values().all(|target| target.flying == 0)
    }
}
