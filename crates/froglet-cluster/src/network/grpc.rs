//! The real network: gRPC to the placement driver's leader, to the etcd within it, and to the stores.
//!
//! ```text
//!   timestamps ─▶ one stream to the leader: whoever asks while it is under way is answered by the next request
//!   the rest   ─▶ one call each, over one connection for each server
//! ```
//! Whatever fails is asked for anew the next time: another driver may lead, another address may be a store's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::{Network, Place, RegionSize, Request, Response, Said, Unreachable, sizes};
use crate::wire::{etcd, pd};

/// What stores and drivers may answer at most, in bytes.
const LARGEST_ANSWER: usize = 64 << 20;

/// Connections to one cluster.
pub struct GrpcNetwork {
    /// Drivers that were named.
    drivers: Vec<String>,
    timeout: Duration,
    made: Instant,
    driver: Mutex<Option<Arc<Driver>>>,
    stores: Mutex<HashMap<u64, Channel>>,
}

/// The leader of the placement drivers.
struct Driver {
    address: String,
    cluster_id: u64,
    channel: Channel,
    oracle: mpsc::UnboundedSender<(u32, oneshot::Sender<u64>)>,
}

pub(super) fn unreachable(whom: &str, why: impl ToString) -> Unreachable {
    Unreachable { whom: whom.to_owned(), why: why.to_string() }
}

/// A gRPC status without what it repeats.
fn told(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn connect(address: &str, timeout: Duration) -> Result<Channel, Unreachable> {
    let uri = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let endpoint = Endpoint::from_shared(uri).map_err(|e| unreachable(address, e))?;
    let endpoint = endpoint
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .keep_alive_while_idle(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(timeout);
    Ok(endpoint.connect_lazy())
}

async fn call<Q, A>(
    channel: &Channel,
    whom: &str,
    path: &'static str,
    question: Q,
    timeout: Duration,
) -> Result<A, Unreachable>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let asked = async {
        let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        grpc.ready().await.map_err(|e| unreachable(whom, e))?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(tonic::Request::new(question), path, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| unreachable(whom, told(&status)))
    };
    match tokio::time::timeout(timeout, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(unreachable(whom, format!("no answer within {} s", timeout.as_secs_f32()))),
    }
}

/// One request, one answer, of a call that could have more.
async fn call_once<Q, A>(
    channel: &Channel,
    whom: &str,
    path: &'static str,
    question: Q,
    timeout: Duration,
) -> Result<A, Unreachable>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let asked = async {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.map_err(|e| unreachable(whom, e))?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let questions = futures::stream::iter([question]);
        let path = PathAndQuery::from_static(path);
        let answers = grpc.streaming(tonic::Request::new(questions), path, codec).await;
        let mut answers = answers.map_err(|status| unreachable(whom, told(&status)))?.into_inner();
        let first = answers.message().await.map_err(|status| unreachable(whom, told(&status)))?;
        first.ok_or_else(|| unreachable(whom, "the answer ended before it began"))
    };
    match tokio::time::timeout(timeout, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(unreachable(whom, format!("no answer within {} s", timeout.as_secs_f32()))),
    }
}

impl GrpcNetwork {
    /// To the cluster of these placement drivers, each `host:port`. A call takes at most `timeout`.
    pub fn new(drivers: Vec<String>, timeout: Duration) -> GrpcNetwork {
        let (made, driver, stores) = (Instant::now(), Mutex::default(), Mutex::default());
        GrpcNetwork { drivers, timeout, made, driver, stores }
    }

    async fn driver(&self) -> Result<Arc<Driver>, Unreachable> {
        if let Some(driver) = &*self.driver.lock() {
            return Ok(Arc::clone(driver));
        }
        let mut failed = unreachable("the placement driver", "none is named");
        for address in &self.drivers {
            match self.find_leader(address).await {
                Ok(driver) => {
                    let driver = Arc::new(driver);
                    *self.driver.lock() = Some(Arc::clone(&driver));
                    return Ok(driver);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn find_leader(&self, address: &str) -> Result<Driver, Unreachable> {
        let asked = connect(address, self.timeout)?;
        let question = pd::GetMembersRequest { header: None };
        let members: pd::GetMembersResponse =
            call(&asked, address, "/pdpb.PD/GetMembers", question, self.timeout).await?;
        let cluster_id = members.header.as_ref().map_or(0, |header| header.cluster_id);
        let leader = members.leader.ok_or_else(|| unreachable(address, "no driver leads"))?;
        let url = leader.client_urls.first().cloned();
        let leads = url.ok_or_else(|| unreachable(address, "the leader has no address"))?;
        let channel = connect(&leads, self.timeout)?;
        let (oracle, questions) = mpsc::unbounded_channel();
        let driver =
            Driver { address: leads.clone(), cluster_id, channel: channel.clone(), oracle };
        tokio::spawn(async move {
            if let Err(error) = ask_oracle(&channel, &leads, cluster_id, questions).await {
                tracing::debug!(%error, "the stream of timestamps has ended");
            }
        });
        Ok(driver)
    }

    /// Another may lead by now.
    fn forget_driver(&self, driver: &Arc<Driver>) {
        let mut known = self.driver.lock();
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, driver)) {
            *known = None;
        }
    }

    async fn ask_driver<Q, A>(
        &self,
        path: &'static str,
        question: impl FnOnce(pd::RequestHeader) -> Q + Send,
        header_of: fn(&A) -> Option<&pd::ResponseHeader>,
    ) -> Result<A, Unreachable>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let driver = self.driver().await?;
        let header = pd::RequestHeader { cluster_id: driver.cluster_id };
        let asked = call(&driver.channel, &driver.address, path, question(header), self.timeout);
        let answer: Result<A, _> = asked.await;
        let refused = |answer: &A| {
            let error = header_of(answer)?.error.as_ref()?;
            Some(unreachable(&driver.address, &error.message))
        };
        let answer = answer.and_then(|answer| match refused(&answer) {
            None => Ok(answer),
            Some(error) => Err(error),
        });
        if answer.is_err() {
            self.forget_driver(&driver);
        }
        answer
    }

    async fn ask_etcd<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Unreachable>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let driver = self.driver().await?;
        let asked = call(&driver.channel, &driver.address, path, question, self.timeout).await;
        if asked.is_err() {
            self.forget_driver(&driver);
        }
        asked
    }

    async fn store(&self, id: u64) -> Result<Channel, Unreachable> {
        if let Some(channel) = self.stores.lock().get(&id) {
            return Ok(channel.clone());
        }
        let question = |header| pd::GetStoreRequest { header: Some(header), store_id: id };
        let answer: pd::GetStoreResponse = self
            .ask_driver("/pdpb.PD/GetStore", question, |a: &pd::GetStoreResponse| a.header.as_ref())
            .await?;
        let name = format!("store {id}");
        let store = answer.store.ok_or_else(|| unreachable(&name, "it is not known"))?;
        let channel = connect(&store.address, self.timeout)?;
        self.stores.lock().insert(id, channel.clone());
        Ok(channel)
    }
}

/// Answers those who ask the oracle until the stream breaks.
async fn ask_oracle(
    channel: &Channel,
    whom: &str,
    cluster_id: u64,
    mut questions: mpsc::UnboundedReceiver<(u32, oneshot::Sender<u64>)>,
) -> Result<(), Unreachable> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|e| unreachable(whom, e))?;
    let codec: ProstCodec<pd::TsoRequest, pd::TsoResponse> = ProstCodec::default();
    let (asking, mut asked) = mpsc::unbounded_channel::<pd::TsoRequest>();
    let stream = futures::stream::poll_fn(move |cx| asked.poll_recv(cx));
    let path = PathAndQuery::from_static("/pdpb.PD/Tso");
    // The driver answers the call with its first timestamp: there has to be a question.
    let mut answers = None;
    let mut begun = Some((grpc, tonic::Request::new(stream), path, codec));
    let mut waiting = Vec::new();
    while questions.recv_many(&mut waiting, 1_024).await > 0 {
        let count = waiting.iter().map(|(count, _)| *count).sum();
        let header = Some(pd::RequestHeader { cluster_id });
        let sent = asking.send(pd::TsoRequest { header, count });
        sent.map_err(|e| unreachable(whom, e))?;
        if let Some((mut grpc, request, path, codec)) = begun.take() {
            let opened = grpc.streaming(request, path, codec).await;
            answers = Some(opened.map_err(|status| unreachable(whom, told(&status)))?.into_inner());
        }
        let answers = answers.as_mut().expect("opened with the first question");
        let answer = answers.message().await.map_err(|status| unreachable(whom, told(&status)))?;
        let last = answer.and_then(|answer: pd::TsoResponse| answer.timestamp);
        let last = last.ok_or_else(|| unreachable(whom, "no timestamp was answered"))?;
        let (physical, logical) = (last.physical.cast_unsigned(), last.logical.cast_unsigned());
        let mut next = (physical << 18) + logical - u64::from(count);
        for (count, asker) in waiting.drain(..) {
            next += u64::from(count);
            // Who has gone away does not need it.
            let _ = asker.send(next);
        }
    }
    Ok(())
}

macro_rules! dispatch {
    ($self:ident, $channel:expr, $whom:expr, $request:expr; $($name:ident $path:literal;)*) => {
        match $request {
            $(Request::$name(question) => {
                call(&$channel, &$whom, concat!("/tikvpb.Tikv/", $path), question, $self.timeout)
                    .await
                    .map(Response::$name)
            })*
        }
    };
}

#[async_trait]
impl Network for GrpcNetwork {
    async fn ask(&self, store: u64, request: Request) -> Result<Response, Unreachable> {
        let channel = self.store(store).await?;
        let whom = format!("store {store}");
        dispatch! { self, channel, whom, request;
            Get "KvGet";
            BatchGet "KvBatchGet";
            Scan "KvScan";
            PessimisticLock "KvPessimisticLock";
            PessimisticRollback "KVPessimisticRollback";
            Prewrite "KvPrewrite";
            Commit "KvCommit";
            BatchRollback "KvBatchRollback";
            TxnHeartBeat "KvTxnHeartBeat";
            CheckTxnStatus "KvCheckTxnStatus";
            ResolveLock "KvResolveLock";
            ScanLock "KvScanLock";
            SplitRegion "SplitRegion";
        }
    }

    async fn timestamps(&self, count: u32) -> Result<u64, Unreachable> {
        let driver = self.driver().await?;
        let (asker, answer) = oneshot::channel();
        let asked = driver.oracle.send((count, asker)).is_ok();
        let answered = match asked {
            true => tokio::time::timeout(self.timeout, answer).await.ok().and_then(Result::ok),
            false => None,
        };
        answered.ok_or_else(|| {
            self.forget_driver(&driver);
            unreachable(&driver.address, "it gives no timestamps")
        })
    }

    fn clock(&self) -> Duration {
        self.made.elapsed()
    }

    async fn place_of(&self, key: &[u8]) -> Result<Place, Unreachable> {
        let region_key = ordered(key);
        let question = |header| pd::GetRegionRequest { header: Some(header), region_key };
        let answer: pd::GetRegionResponse = self
            .ask_driver("/pdpb.PD/GetRegion", question, |a: &pd::GetRegionResponse| {
                a.header.as_ref()
            })
            .await?;
        let why = "no region has the key";
        let mut region = answer.region.ok_or_else(|| unreachable("the placement driver", why))?;
        for bound in [&mut region.start_key, &mut region.end_key] {
            let why = "a region's bound is not encoded as keys are";
            *bound = of_ordered(bound).ok_or_else(|| unreachable("the placement driver", why))?;
        }
        Ok(Place { region, leader: answer.leader.filter(|leader| leader.id != 0) })
    }

    async fn sizes(&self, start: &[u8], end: &[u8]) -> Result<Vec<RegionSize>, Unreachable> {
        let driver = self.driver().await?;
        // Of a driver that wants TLS they are not known.
        if !driver.address.starts_with("http://") {
            return Ok(Vec::new());
        }
        sizes::ask(&driver.address, start, end, self.timeout).await
    }

    fn forget_store(&self, store: u64) {
        self.stores.lock().remove(&store);
    }

    async fn grant_lease(&self, seconds: u32) -> Result<i64, Unreachable> {
        let question = etcd::LeaseGrantRequest { ttl: i64::from(seconds) };
        let answer: etcd::LeaseGrantResponse =
            self.ask_etcd("/etcdserverpb.Lease/LeaseGrant", question).await?;
        match answer.error.is_empty() {
            true => Ok(answer.id),
            false => Err(unreachable("the placement driver", answer.error)),
        }
    }

    async fn keep_lease(&self, lease: i64) -> Result<bool, Unreachable> {
        let driver = self.driver().await?;
        let question = etcd::LeaseKeepAliveRequest { id: lease };
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let asked: Result<etcd::LeaseKeepAliveResponse, _> =
            call_once(&driver.channel, &driver.address, path, question, self.timeout).await;
        if asked.is_err() {
            self.forget_driver(&driver);
        }
        Ok(asked?.ttl > 0)
    }

    async fn end_lease(&self, lease: i64) -> Result<(), Unreachable> {
        let question = etcd::LeaseRevokeRequest { id: lease };
        let ended: Result<etcd::LeaseRevokeResponse, _> =
            self.ask_etcd("/etcdserverpb.Lease/LeaseRevoke", question).await;
        match ended {
            Err(error) if !error.why.starts_with("NotFound") => Err(error),
            _ => Ok(()),
        }
    }

    async fn say(&self, lease: i64, key: &[u8], value: &[u8]) -> Result<bool, Unreachable> {
        let question = etcd::PutRequest { key: key.to_vec(), value: value.to_vec(), lease };
        let put: Result<etcd::PutResponse, _> =
            self.ask_etcd("/etcdserverpb.KV/Put", question).await;
        match put {
            Ok(_) => Ok(true),
            Err(error) if error.why.starts_with("NotFound") => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn said(&self, prefix: &[u8]) -> Result<Vec<Said>, Unreachable> {
        let range_end = froglet_engine::key::successor(prefix).unwrap_or_default();
        let question = etcd::RangeRequest { key: prefix.to_vec(), range_end };
        let answer: etcd::RangeResponse = self.ask_etcd("/etcdserverpb.KV/Range", question).await?;
        Ok(answer.kvs.into_iter().map(|kv| Said { key: kv.key, value: kv.value }).collect())
    }

    async fn keep_since(&self, who: &str, ts: u64, seconds: u32) -> Result<u64, Unreachable> {
        let service_id = who.as_bytes().to_vec();
        let question = |header| pd::UpdateServiceGcSafePointRequest {
            header: Some(header),
            service_id,
            ttl: if seconds == u32::MAX { i64::MAX } else { i64::from(seconds) },
            safe_point: ts,
        };
        let path = "/pdpb.PD/UpdateServiceGCSafePoint";
        let answer: pd::UpdateServiceGcSafePointResponse = self
            .ask_driver(path, question, |a: &pd::UpdateServiceGcSafePointResponse| {
                a.header.as_ref()
            })
            .await?;
        Ok(answer.min_safe_point)
    }

    async fn collect_before(&self, ts: u64) -> Result<(), Unreachable> {
        let question =
            |header| pd::UpdateGcSafePointRequest { header: Some(header), safe_point: ts };
        let path = "/pdpb.PD/UpdateGCSafePoint";
        let answered: Result<pd::UpdateGcSafePointResponse, _> = self
            .ask_driver(path, question, |a: &pd::UpdateGcSafePointResponse| a.header.as_ref())
            .await;
        answered.map(drop)
    }
}

/// A key as placement drivers order it: groups of eight bytes, each with how many of them count.
pub fn ordered(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((key.len() / 8 + 1) * 9);
    let mut rest = key;
    loop {
        let group = &rest[..rest.len().min(8)];
        rest = &rest[group.len()..];
        out.extend_from_slice(group);
        let padding = 8 - group.len();
        out.resize(out.len() + padding, 0);
        out.push(0xFF - u8::try_from(padding).expect("at most eight"));
        if padding > 0 {
            return out;
        }
    }
}

/// The key of [`ordered`]; none if it is not so encoded.
fn of_ordered(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(encoded.len());
    for group in encoded.chunks(9) {
        let (marker, bytes) = group.split_last().filter(|_| group.len() == 9)?;
        let counted = 8usize.checked_sub(usize::from(0xFF - marker))?;
        out.extend_from_slice(&bytes[..counted]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_keep_their_order() {
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![255; 8], vec![255; 9]];
        for n in 0..40_usize {
            keys.push((0..n).map(|at| (at * 37 % 251) as u8).collect());
        }
        keys.sort();
        let encoded: Vec<Vec<u8>> = keys.iter().map(|key| ordered(key)).collect();
        assert!(encoded.is_sorted());
        for (key, encoded) in keys.iter().zip(&encoded) {
            assert_eq!(of_ordered(encoded).as_ref(), Some(key));
        }
        assert_eq!(of_ordered(b"").as_deref(), Some(&b""[..]), "no bound");
        assert_eq!(of_ordered(b"short"), None);
    }
}
