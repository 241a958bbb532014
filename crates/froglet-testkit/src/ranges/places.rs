//! Which store answers for which keys.
//!
//! ```text
//!   keys      …──────────┬───────────────┬──────────…
//!   regions      1 (v2)  │    2 (v3)     │  3 (v3)       each led by one store, with a peer on every store
//!   split                     4 │ 2                       the right part keeps the id, both have a new version
//! ```
//! **[P1]** Every key is in exactly one region, always.
//! **[P2]** A region's borders change only together with its version. So a request that was made with the version of the
//! region has its keys where its sender thinks, and [`Places::admit`] lets no other pass.
//!
//! A store knows at which timestamps it has been read: a commit in one phase comes after those (`prewrite`). A new
//! leader has read nothing, so it takes the newest timestamp that there is.
//! Left out: merges, and changes of peers.

use std::collections::BTreeMap;
use std::ops::Bound;

use froglet_cluster::network::Place;
use froglet_cluster::wire::kv::{self, RegionError};

/// A region and its leader.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub id: u64,
    pub start: Vec<u8>,
    /// Empty: none.
    pub end: Vec<u8>,
    pub version: u64,
    pub leader: u64,
}

impl Region {
    pub fn has(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }
}

#[derive(Debug)]
struct Store {
    is_up: bool,
    /// The latest that anybody has read at.
    read_ts: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Places {
    /// By their first keys.
    regions: BTreeMap<Vec<u8>, Region>,
    stores: BTreeMap<u64, Store>,
    next_region: u64,
}

impl Places {
    /// One region over all stores, led by the first.
    pub fn new(stores: u64) -> Places {
        assert!(stores > 0, "somebody has to have the keys");
        let region = Region { id: 1, start: Vec::new(), end: Vec::new(), version: 1, leader: 1 };
        let stores = (1..=stores).map(|id| (id, Store { is_up: true, read_ts: 0 })).collect();
        Places { regions: BTreeMap::from([(Vec::new(), region)]), stores, next_region: 2 }
    }

    pub fn of(&self, key: &[u8]) -> &Region {
        let from = (Bound::Unbounded, Bound::Included(key));
        let found = self.regions.range::<[u8], _>(from).next_back();
        let region = found.map(|(_, region)| region).expect("the first begins before all keys");
        assert!(region.has(key), "[P1] is broken");
        region
    }

    pub fn all(&self) -> impl Iterator<Item = &Region> {
        self.regions.values()
    }

    fn peer(region: u64, store: u64) -> kv::Peer {
        kv::Peer { id: region * 1000 + store, store_id: store }
    }

    pub fn wire(&self, region: &Region) -> kv::Region {
        let conf_ver = self.stores.len() as u64;
        kv::Region {
            id: region.id,
            start_key: region.start.clone(),
            end_key: region.end.clone(),
            region_epoch: Some(kv::RegionEpoch { conf_ver, version: region.version }),
            peers: self.stores.keys().map(|store| Places::peer(region.id, *store)).collect(),
        }
    }

    /// As the placement driver says it: with a leader that may be down.
    pub fn place(&self, region: &Region) -> Place {
        let leader = Some(Places::peer(region.id, region.leader));
        Place { region: self.wire(region), leader }
    }

    /// The region that a request is for, if this store answers for it and all of its keys are there.
    pub fn admit<'a>(
        &self,
        store: u64,
        context: Option<&kv::Context>,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Region, Box<RegionError>> {
        let plain = RegionError::default;
        let refused = |message: &str, error| {
            Err(Box::new(RegionError { message: message.to_owned(), ..error }))
        };
        let context = context.cloned().unwrap_or_default();
        let request_store_id = context.peer.unwrap_or_default().store_id;
        if request_store_id != store {
            let wrong = kv::StoreNotMatch { request_store_id, actual_store_id: store };
            let error = RegionError { store_not_match: Some(wrong), ..plain() };
            return refused("store not match", error);
        }
        let region_id = context.region_id;
        let Some(region) = self.all().find(|region| region.id == region_id) else {
            let region_not_found = Some(kv::RegionNotFound { region_id });
            return refused("region not found", RegionError { region_not_found, ..plain() });
        };
        if region.leader != store {
            // Nobody believes in a leader that is down.
            let leader = self.is_up(region.leader).then(|| Places::peer(region_id, region.leader));
            let not_leader = Some(kv::NotLeader { region_id, leader });
            return refused("not leader", RegionError { not_leader, ..plain() });
        }
        if context.region_epoch.is_none_or(|epoch| epoch.version != region.version) {
            // The left part of a split may be what the sender is looking for.
            let left = self.all().find(|other| !other.end.is_empty() && other.end == region.start);
            let current_regions = std::iter::once(region).chain(left).map(|r| self.wire(r));
            let current_regions = current_regions.collect();
            let epoch_not_match = Some(kv::EpochNotMatch { current_regions });
            return refused("epoch not match", RegionError { epoch_not_match, ..plain() });
        }
        match keys.into_iter().find(|key| !region.has(key)) {
            None => Ok(region.clone()),
            Some(key) => {
                let outside = kv::KeyNotInRegion { key: key.to_vec(), region_id };
                let error = RegionError { key_not_in_region: Some(outside), ..plain() };
                refused("key not in region", error)
            }
        }
    }

    /// Splits a region at keys within it, and returns its parts. What it has been since is [P2]'s.
    pub fn split(&mut self, region: &Region, mut keys: Vec<Vec<u8>>) -> Vec<kv::Region> {
        keys.sort_unstable();
        keys.dedup();
        assert!(
            keys.iter().all(|key| region.has(key) && *key != region.start),
            "a region is split at keys within it"
        );
        let version = region.version + keys.len() as u64;
        let mut start = region.start.clone();
        let mut parts = Vec::new();
        for end in keys {
            let id = self.next_region;
            self.next_region += 1;
            parts.push(Region { id, start, end: end.clone(), version, leader: region.leader });
            start = end;
        }
        parts.push(Region { start, version, ..region.clone() });
        let answer = parts.iter().map(|part| self.wire(part)).collect();
        for part in parts {
            self.regions.insert(part.start.clone(), part);
        }
        answer
    }

    pub fn move_leader(&mut self, key: &[u8], store: u64, newest_ts: u64) {
        self.saw_read(store, newest_ts);
        let start = self.of(key).start.clone();
        let region = self.regions.get_mut(&start).expect("it was found just now");
        region.leader = store;
    }

    pub fn is_up(&self, store: u64) -> bool {
        self.stores.get(&store).is_some_and(|store| store.is_up)
    }

    pub fn set_up(&mut self, store: u64, is_up: bool) {
        let store = self.stores.get_mut(&store).expect("the test names stores that there are");
        store.is_up = is_up;
    }

    /// Whatever a store leads is led by the next one that is up.
    pub fn fail_over(&mut self, store: u64, newest_ts: u64) {
        let after = self.stores.range(store + 1..).chain(self.stores.range(..store));
        let heir = after.into_iter().find(|(_, other)| other.is_up).map(|(id, _)| *id);
        let heir = heir.expect("some other store is up");
        self.saw_read(heir, newest_ts);
        for region in self.regions.values_mut().filter(|region| region.leader == store) {
            region.leader = heir;
        }
    }

    pub fn read_ts(&self, store: u64) -> u64 {
        self.stores[&store].read_ts
    }

    /// A store was read at a timestamp; the highest stands for no time at all.
    pub fn saw_read(&mut self, store: u64, ts: u64) {
        let store = self.stores.get_mut(&store).expect("the test names stores that there are");
        if ts != u64::MAX {
            store.read_ts = store.read_ts.max(ts);
        }
    }
}
