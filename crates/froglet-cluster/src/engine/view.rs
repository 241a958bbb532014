//! What a view sees: the store as of a timestamp, and over it what its transaction has written.

use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::{Asked, EngineError};
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::{Core, failed};
use crate::client::{StoreError, counted};

/// Pairs of a page of a scan.
pub(super) const PAGE: u32 = 512;

/// See the module.
pub(super) struct View<'a> {
    pub core: &'a Core,
    pub ts: u64,
    pub own: Option<Arc<Mutex<Buffer>>>,
    /// Where it is counted what it asks, if anywhere.
    pub asked: Option<Arc<Asked>>,
    /// What it does not see may have been collected.
    pub may_lack: bool,
}

impl View<'_> {
    /// The store as of a timestamp.
    pub fn at(core: &Core, ts: u64) -> View<'_> {
        View { core, ts, own: None, asked: None, may_lack: false }
    }

    /// The same, of however long ago: to tell whether a key is still what it was then. A value that has stayed since is there,
    /// whatever was collected, since nothing newer stands for it.
    pub fn of_what_has_stayed(core: &Core, ts: u64) -> View<'_> {
        View { may_lack: true, ..View::at(core, ts) }
    }

    fn wait<T: Send>(
        &self,
        asks: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, EngineError> {
        let asks = async {
            let answer = asks.await?;
            if !self.may_lack {
                self.core.gateways.still_reads(self.ts).await?;
            }
            Ok(answer)
        };
        let answer = match &self.asked {
            Some(asked) => self.core.wait(counted(Arc::clone(asked), asks)),
            None => self.core.wait(asks),
        };
        answer.map_err(failed)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        if let Some(own) = &self.own
            && let Some(value) = own.lock().get(key)
        {
            return Ok(value.clone());
        }
        self.wait(self.core.client.get(key, self.ts))
    }

    /// The values of keys, in their order.
    pub fn get_all(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        let mut values: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
        if let Some(own) = &self.own {
            let own = own.lock();
            for (key, value) in keys.iter().zip(&mut values) {
                *value = own.get(key).cloned();
            }
        }
        let asked: Vec<Vec<u8>> = keys
            .iter()
            .zip(&values)
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        let mut found = std::collections::HashMap::new();
        if !asked.is_empty() {
            found.extend(self.wait(self.core.client.get_all(asked, self.ts))?);
        }
        let of = |(key, value): (&Vec<u8>, Option<Option<Vec<u8>>>)| match value {
            Some(own) => own,
            // A key may be asked for twice.
            None => found.get(key).cloned(),
        };
        Ok(keys.iter().zip(values).map(of).collect())
    }

    /// Some pairs of a range, in order, and where the next ones begin.
    #[allow(clippy::type_complexity)]
    pub fn page(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>), EngineError> {
        if from >= to {
            return Ok((Vec::new(), None));
        }
        let page = self.wait(self.core.client.scan(from, to, PAGE, self.ts))?;
        let Some(own) = &self.own else { return Ok((page.pairs, page.next)) };
        let end = page.next.as_deref().unwrap_or(to);
        let own = own.lock().range(from, end);
        if own.is_empty() {
            return Ok((page.pairs, page.next));
        }
        let mut merged = std::collections::BTreeMap::from_iter(page.pairs);
        for (key, value) in own {
            match value {
                Some(value) => merged.insert(key, value),
                None => merged.remove(&key),
            };
        }
        Ok((merged.into_iter().collect(), page.next))
    }

    /// Visits the pairs of a range page by page.
    pub fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        mut visit: impl FnMut(Vec<(Vec<u8>, Vec<u8>)>) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<(), EngineError> {
        let mut next = Some(from.to_vec());
        while let Some(from) = next {
            let (pairs, after) = self.page(&from, to)?;
            next = after;
            if !pairs.is_empty() && visit(pairs)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}
