//! The calls of Flight that tonic serves.
//!
//! What a caller is to this server comes with the request: its connection as an extension, its user
//! and wishes as metadata.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::Command;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::HeaderMap;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::sessions::Guest;
use super::{actions, metadata, put, statements, status};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlightCalls;

type Answers<T> = BoxStream<'static, Result<T, Status>>;

fn one<T: Send + 'static>(answer: T) -> Response<Answers<T>> {
    Response::new(futures::stream::once(std::future::ready(Ok(answer))).boxed())
}

/// Who calls, from where, and with what.
fn open<T>(request: Request<T>) -> (Arc<Guest>, HeaderMap, T) {
    let (metadata, extensions, message) = request.into_parts();
    let guest = extensions.get::<Arc<Guest>>().expect("the listener has put it there").clone();
    (guest, metadata.into_headers(), message)
}

async fn info(
    guest: &Guest,
    headers: &HeaderMap,
    descriptor: &FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let command = put::command(&descriptor.cmd)?;
    let session = guest.session(headers)?;
    let strings = statements::strings(headers)?;
    let info = match command {
        Command::CommandStatementQuery(query) => {
            session.query(query.query, query.transaction_id.as_ref(), strings).await
        }
        Command::CommandPreparedStatementQuery(query) => {
            session.query_prepared(&query.prepared_statement_handle, strings).await
        }
        command => metadata::info(&session, command).await,
    };
    Ok(info?.with_descriptor(descriptor.clone()))
}

async fn schema(
    guest: &Guest,
    headers: &HeaderMap,
    descriptor: &FlightDescriptor,
) -> Result<Schema, Status> {
    let command = put::command(&descriptor.cmd)?;
    let session = guest.session(headers)?;
    let strings = statements::strings(headers)?;
    let schema = match command {
        Command::CommandStatementQuery(query) => {
            session.schema_of_text(query.query, query.transaction_id.as_ref()).await?
        }
        Command::CommandPreparedStatementQuery(query) => {
            let statement = session.statement(&query.prepared_statement_handle)?;
            statement.prepared.result_schema().unwrap_or_else(Schema::empty)
        }
        command => return Ok(metadata::rows(&session, command).await?.0),
    };
    Ok(strings.of(&schema).as_ref().clone())
}

#[tonic::async_trait]
impl FlightService for FlightCalls {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let (guest, headers, _) = open(request);
        let token = guest.registry.users.token(&guest.caller(&headers)?);
        let payload = token.clone().into_bytes().into();
        let mut response = one(HandshakeResponse { protocol_version: 0, payload });
        let bearer = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|e| Status::internal(e.to_string()))?;
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(status::unsupported("a list of flights"))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let (guest, headers, descriptor) = open(request);
        Ok(Response::new(info(&guest, &headers, &descriptor).await?))
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let (guest, headers, descriptor) = open(request);
        let info = info(&guest, &headers, &descriptor).await?;
        let whole = PollInfo::new().with_info(info).try_with_progress(1.0);
        Ok(Response::new(whole.map_err(|e| Status::internal(e.to_string()))?))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let (guest, headers, descriptor) = open(request);
        let schema = schema(&guest, &headers, &descriptor).await?;
        Ok(Response::new(SchemaResult { schema: statements::schema_bytes(&schema)? }))
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        // The listener answers it before tonic has to.
        Err(Status::internal("DoGet is answered elsewhere"))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let (guest, headers, mut messages) = open(request);
        let answer = async { put::put(&guest.session(&headers)?, &mut messages).await }.await;
        if answer.is_err() {
            put::forget(&mut messages).await;
        }
        Ok(one(answer?))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let (guest, headers, action) = open(request);
        let result = actions::act(&guest, &headers, action).await?;
        let results = result.map(|body| Ok(arrow_flight::Result { body }));
        Ok(Response::new(futures::stream::iter(results).boxed()))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = actions::all().into_iter().map(Ok);
        Ok(Response::new(futures::stream::iter(actions).boxed()))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(status::unsupported("DoExchange"))
    }
}
