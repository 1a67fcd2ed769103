//! A hundred thousand random events, and nothing is left of them.

use super::*;

/// Splitmix64 (Steele, Lea and Flood, 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn index(&mut self, of: usize) -> usize {
        self.below(of as u64) as usize
    }

    fn ticket(&mut self) -> Ticket {
        let key = self.below(8);
        let parallel = if key < 4 { usize::MAX } else { self.index(4) };
        Ticket {
            party: Party { key, weight: self.below(4) as u32, parallel },
            target: [None, Some(self.below(4))][self.index(2)],
            bytes: self.below(200_000),
            priority: [Priority::High, Priority::Normal, Priority::Low][self.index(3)],
            deadline: None,
        }
    }

    fn limits(&mut self) -> Limits {
        let (permits, max_waiting) = (self.index(12), self.index(60));
        Limits { permits, max_waiting, max_bytes: self.below(4_000_000), per_key: self.index(30) }
    }
}

struct Lane {
    core: Core<Rank>,
    /// Queued once, and not yet heard from.
    places: Vec<(Rank, Claim)>,
    flights: Vec<Claim>,
    sheds: usize,
}

impl Lane {
    /// Some of the callers that were woken look at once.
    fn look(&mut self, dice: &mut Dice) {
        let mut at = 0;
        while at < self.places.len() {
            let (rank, claim) = self.places[at];
            if self.core.is_waiting(&rank) || dice.below(3) == 0 {
                at += 1;
                continue;
            }
            self.places.swap_remove(at);
            match self.core.fate(&rank) {
                Fate::Granted => self.flights.push(claim),
                Fate::Shed(_) => self.sheds += 1,
                Fate::Waits(_) => unreachable!("just asked"),
            }
        }
    }
}

#[test]
fn nothing_is_left_of_a_hundred_thousand_events() {
    let mut dice = Dice(7);
    let mut now = Instant::now();
    let mut lane = Lane { core: Core::new(limits(4)), places: vec![], flights: vec![], sheds: 0 };
    // The waiter's own rank is not known before it waits; any will do.
    let nobody = queued(&mut Core::new(limits(0)), ticket(0), now, ());
    for _ in 0..100_000 {
        now += ms(dice.below(20));
        match dice.below(20) {
            0..9 => {
                let ticket = dice.ticket();
                match lane.core.enter(&ticket, now, nobody).0 {
                    Ok(Entry::Admitted) => lane.flights.push(Claim::of(&ticket)),
                    Ok(Entry::Queued(rank)) => lane.places.push((rank, Claim::of(&ticket))),
                    Err(_) => {}
                }
            }
            9..16 if !lane.flights.is_empty() => {
                let claim = lane.flights.swap_remove(dice.index(lane.flights.len()));
                lane.core.leave(claim, || now);
            }
            16..18 if !lane.places.is_empty() => {
                let (rank, claim) = lane.places.swap_remove(dice.index(lane.places.len()));
                lane.core.quit(&rank, claim, || now);
            }
            18 if dice.below(10) == 0 => drop(lane.core.resize(dice.limits(), now)),
            19 => drop(lane.core.cap(dice.below(4), [None, Some(dice.index(4))][dice.index(2)], now)),
            _ => {}
        }
        lane.look(&mut dice);
    }
    assert!(lane.sheds > 100, "{} shed", lane.sheds);
    for (rank, claim) in lane.places.drain(..) {
        lane.core.quit(&rank, claim, || now);
    }
    for claim in lane.flights.drain(..) {
        lane.core.leave(claim, || now);
    }
    assert!(lane.core.is_idle(), "{:?}", lane.core);
}
