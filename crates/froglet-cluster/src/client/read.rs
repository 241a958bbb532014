//! Reads at a timestamp.

use super::{Client, StoreError, of_key_error};
use crate::wire::kv;

/// Some pairs of a range, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and values.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the next page begins, if there is one.
    pub next: Option<Vec<u8>>,
}

/// As a store answers: no value is empty.
fn some(value: Vec<u8>) -> Option<Vec<u8>> {
    (!value.is_empty()).then_some(value)
}

impl Client {
    /// The value of a key.
    pub async fn get(&self, key: &[u8], ts: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let (mut later, mut pause) = (Vec::new(), self.pause());
        loop {
            let request = Passing {
                passed: later.clone(),
                request: kv::GetRequest { context: None, key: key.to_vec(), version: ts },
            };
            let (answer, _) = self.ask_region(key, request).await?;
            match answer.error {
                None => return Ok(some(answer.value)),
                Some(kv::KeyError { locked: Some(lock), .. }) => {
                    self.pass_locks(vec![lock], ts, &mut later, &mut pause).await?;
                }
                Some(error) => return Err(of_key_error(error)),
            }
        }
    }

    /// The values of those of some keys that have one, in no order: one request of each region.
    pub async fn get_all(
        &self,
        keys: Vec<Vec<u8>>,
        ts: u64,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let (mut found, mut left, mut pause) = (Vec::new(), keys, self.pause());
        let mut later = Vec::new();
        while !left.is_empty() {
            let passed = later.clone();
            let request = |keys: &[Vec<u8>]| Passing {
                passed: passed.clone(),
                request: kv::BatchGetRequest { context: None, keys: keys.to_vec(), version: ts },
            };
            let answers = self.ask_for(left, |key| key, Vec::len, request).await?;
            left = Vec::new();
            let mut locks = Vec::new();
            for (asked, answer) in answers {
                if let Some(error) = answer.error {
                    let lock = error.locked.clone().ok_or_else(|| of_key_error(error))?;
                    locks.push(lock);
                    left.extend(asked);
                    continue;
                }
                for pair in answer.pairs {
                    match pair.error {
                        None => found.extend(some(pair.value).map(|value| (pair.key, value))),
                        Some(error) => {
                            let lock = error.locked.clone().ok_or_else(|| of_key_error(error))?;
                            left.push(lock.key.clone());
                            locks.push(lock);
                        }
                    }
                }
            }
            self.pass_locks(locks, ts, &mut later, &mut pause).await?;
        }
        Ok(found)
    }

    /// The first pairs of a range, at most so many; an empty end is none. At most one region is asked, again if
    /// locks are in the way.
    pub async fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        limit: u32,
        ts: u64,
    ) -> Result<Page, StoreError> {
        let (mut later, mut pause) = (Vec::new(), self.pause());
        loop {
            let request = Passing {
                passed: later.clone(),
                request: kv::ScanRequest {
                    context: None,
                    start_key: start.to_vec(),
                    limit,
                    version: ts,
                    key_only: false,
                    end_key: end.to_vec(),
                },
            };
            let (answer, known) = self.ask_region(start, request).await?;
            if let Some(error) = answer.error {
                let lock = error.locked.clone().ok_or_else(|| of_key_error(error))?;
                self.pass_locks(vec![lock], ts, &mut later, &mut pause).await?;
                continue;
            }
            let asked = answer.pairs.len();
            let mut page = Page::default();
            let mut locks = Vec::new();
            let (region_end, mut is_cut) = (known.end_key(), false);
            for pair in answer.pairs {
                let key = pair.error.as_ref().and_then(|error| error.locked.as_ref());
                let key = key.map_or(&pair.key, |lock| &lock.key);
                if !region_end.is_empty() && &key[..] >= region_end {
                    // Not every store of the kind stops there; what it knows of others may be old.
                    is_cut = true;
                    break;
                }
                match pair.error {
                    Some(error) => {
                        locks.push(error.locked.clone().ok_or_else(|| of_key_error(error))?);
                    }
                    None => page.pairs.extend(some(pair.value).map(|value| (pair.key, value))),
                }
            }
            if !locks.is_empty() {
                self.pass_locks(locks, ts, &mut later, &mut pause).await?;
                continue;
            }
            page.next = match page.pairs.last() {
                Some((last, _)) if !is_cut && asked >= limit as usize => {
                    Some([last.as_slice(), &[0]].concat())
                }
                _ if region_end.is_empty() || (!end.is_empty() && region_end >= end) => None,
                _ => Some(region_end.to_vec()),
            };
            return Ok(page);
        }
    }
}

/// A read that passes by the locks of transactions that will commit later, if ever.
#[derive(Clone, Debug)]
struct Passing<A> {
    passed: Vec<u64>,
    request: A,
}

impl<A: crate::network::Ask> crate::network::Ask for Passing<A> {
    type Answer = A::Answer;

    fn place_at(&mut self, mut context: kv::Context) {
        context.resolved_locks.clone_from(&self.passed);
        self.request.place_at(context);
    }

    fn wrapped(&self) -> crate::network::Request {
        self.request.wrapped()
    }

    fn answer_of(response: crate::network::Response) -> Option<A::Answer> {
        A::answer_of(response)
    }
}
