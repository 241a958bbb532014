//! Where keys are, and how a region is asked.
//!
//! ```text
//!   keys ─▶ groups by region, as it is known ─▶ one request each, at once
//!     ▲                                             │ region error: what is known was wrong
//!     └──────── those keys are grouped anew ◀───────┘
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use parking_lot::RwLock;

use super::{Client, Pause, StoreError};
use crate::network::{Answer, Ask, Place, RegionSize};
use crate::wire::kv;

/// A request has at most so many bytes of keys and values, about: stores want them small.
const GROUP_BYTES: usize = 512 << 10;

/// So many requests are under way at once for one caller.
const AT_ONCE: usize = 16;

/// A region as it is known.
#[derive(Clone, Debug)]
pub(super) struct Known {
    region: kv::Region,
    leader: kv::Peer,
}

impl Known {
    fn has(&self, key: &[u8]) -> bool {
        let region = &self.region;
        region.start_key.as_slice() <= key
            && (region.end_key.is_empty() || key < &region.end_key[..])
    }

    /// Where it ends; empty: nowhere.
    pub fn end_key(&self) -> &[u8] {
        &self.region.end_key
    }

    fn context(&self) -> kv::Context {
        kv::Context {
            region_id: self.region.id,
            region_epoch: self.region.region_epoch,
            peer: Some(self.leader),
            resolved_locks: Vec::new(),
        }
    }
}

/// Regions by their first keys.
#[derive(Debug, Default)]
pub(super) struct Regions(RwLock<BTreeMap<Vec<u8>, Arc<Known>>>);

impl Regions {
    fn find(&self, key: &[u8]) -> Option<Arc<Known>> {
        let known = self.0.read();
        let (_, found) =
            known.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        found.has(key).then(|| Arc::clone(found))
    }

    fn enter(&self, known: Arc<Known>) {
        let mut all = self.0.write();
        let (start, end) = (&known.region.start_key, &known.region.end_key);
        let overlaps = |other: &Known| {
            let other = &other.region;
            (end.is_empty() || other.start_key < *end)
                && (other.end_key.is_empty() || other.end_key > *start)
        };
        all.retain(|_, other| !overlaps(other));
        all.insert(start.clone(), known);
    }

    fn forget(&self, known: &Known) {
        let mut all = self.0.write();
        if all.get(&known.region.start_key).is_some_and(|now| now.region.id == known.region.id) {
            all.remove(&known.region.start_key);
        }
    }
}

/// What is sent to one region together.
struct Group<T> {
    known: Arc<Known>,
    items: Vec<T>,
}

impl Client {
    /// The region of a key.
    pub(super) async fn region_of(
        &self,
        key: &[u8],
        pause: &mut Pause,
    ) -> Result<Arc<Known>, StoreError> {
        loop {
            if let Some(known) = self.regions.find(key) {
                return Ok(known);
            }
            let error = match self.network.place_of(key).await {
                Ok(Place { region, leader }) => match leader.or(region.peers.first().copied()) {
                    Some(leader) => {
                        let known = Arc::new(Known { region, leader });
                        if known.has(key) {
                            self.regions.enter(Arc::clone(&known));
                            return Ok(known);
                        }
                        StoreError::Unavailable("another region was answered".to_owned())
                    }
                    None => StoreError::Unavailable("a region has no peers".to_owned()),
                },
                Err(error) => error.into(),
            };
            pause.after(error).await?;
        }
    }

    /// The regions of a range, in order, as the placement driver knows them now.
    pub async fn places_of(&self, start: &[u8], end: &[u8]) -> Result<Vec<Place>, StoreError> {
        let (mut places, mut from, mut pause) = (Vec::<Place>::new(), start.to_vec(), self.pause());
        loop {
            match self.network.place_of(&from).await {
                Ok(place) => {
                    from.clone_from(&place.region.end_key);
                    places.push(place);
                    if from.is_empty() || &from[..] >= end {
                        return Ok(places);
                    }
                }
                Err(error) => pause.after(error.into()).await?,
            }
        }
    }

    /// The sizes of regions of a range, of those that are known.
    pub async fn sizes_of(&self, start: &[u8], end: &[u8]) -> Result<Vec<RegionSize>, StoreError> {
        Ok(self.network.sizes(start, end).await?)
    }

    /// Items by the regions of their keys.
    async fn grouped<T>(
        &self,
        items: Vec<T>,
        key_of: impl Fn(&T) -> &[u8],
        bytes_of: impl Fn(&T) -> usize,
        pause: &mut Pause,
    ) -> Result<Vec<Group<T>>, StoreError> {
        let mut groups: Vec<(Group<T>, usize)> = Vec::new();
        for item in items {
            let bytes = bytes_of(&item);
            let fits = |(group, has): &&mut (Group<T>, usize)| {
                group.known.has(key_of(&item)) && *has + bytes <= GROUP_BYTES
            };
            match groups.iter_mut().rev().find(fits) {
                Some((group, has)) => {
                    group.items.push(item);
                    *has += bytes;
                }
                None => {
                    let known = self.region_of(key_of(&item), pause).await?;
                    groups.push((Group { known, items: vec![item] }, bytes));
                }
            }
        }
        Ok(groups.into_iter().map(|(group, _)| group).collect())
    }

    /// Asks each region that has some of the items, all at once, until each has answered for its own.
    pub(super) async fn ask_for<T: Send, A: Ask>(
        &self,
        items: Vec<T>,
        key_of: impl Fn(&T) -> &[u8] + Copy,
        bytes_of: impl Fn(&T) -> usize + Copy,
        request: impl Fn(&[T]) -> A,
    ) -> Result<Vec<(Vec<T>, A::Answer)>, StoreError> {
        let (mut answers, mut left, mut pause) = (Vec::new(), items, self.pause());
        loop {
            let groups = self.grouped(left, key_of, bytes_of, &mut pause).await?;
            let asked = groups.into_iter().map(|group| {
                let request = request(&group.items);
                async move { (self.ask_once(&group.known, request).await, group) }
            });
            self.counters.add_round_trip();
            let answered: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
            let mut failed = None;
            left = Vec::new();
            for (answer, group) in answered {
                match answer {
                    Ok(answer) => answers.push((group.items, answer)),
                    Err(error) => {
                        failed = Some(error);
                        left.extend(group.items);
                    }
                }
            }
            match failed {
                None => return Ok(answers),
                Some(StoreError::Full(why)) => return Err(StoreError::Full(why)),
                Some(error) => pause.after(error).await?,
            }
        }
    }

    /// Asks the region of a key until it answers.
    pub(super) async fn ask_region<A: Ask>(
        &self,
        key: &[u8],
        request: A,
    ) -> Result<(A::Answer, Arc<Known>), StoreError> {
        let mut pause = self.pause();
        loop {
            let known = self.region_of(key, &mut pause).await?;
            self.counters.add_round_trip();
            match self.ask_once(&known, request.clone()).await {
                Ok(answer) => return Ok((answer, known)),
                Err(StoreError::Full(why)) => return Err(StoreError::Full(why)),
                Err(error) => pause.after(error).await?,
            }
        }
    }

    async fn ask_once<A: Ask>(
        &self,
        known: &Arc<Known>,
        mut request: A,
    ) -> Result<A::Answer, StoreError> {
        request.place_at(known.context());
        self.counters.add_request(known.region.id);
        let store = known.leader.store_id;
        let mut answer = match self.network.ask(store, request.wrapped()).await {
            Ok(response) => A::answer_of(response)
                .ok_or_else(|| StoreError::Protocol("an answer of another kind".to_owned()))?,
            Err(error) => {
                // Another peer may lead by now.
                self.regions.forget(known);
                self.network.forget_store(store);
                return Err(error.into());
            }
        };
        match answer.take_region_error() {
            None => Ok(answer),
            Some(error) => Err(self.learn(known, error)),
        }
    }

    /// From what a region says that is not as it was known.
    fn learn(&self, known: &Arc<Known>, error: kv::RegionError) -> StoreError {
        if let Some(kv::NotLeader { leader: Some(leader), .. }) = error.not_leader {
            let known = Known { region: known.region.clone(), leader };
            self.regions.enter(Arc::new(known));
        } else if let Some(full) = error.disk_full {
            return StoreError::Full(full.reason);
        } else if error.server_is_busy.is_none() {
            self.regions.forget(known);
        }
        StoreError::Unavailable(match error.message.is_empty() {
            true => format!("{error:?}"),
            false => error.message,
        })
    }
}
