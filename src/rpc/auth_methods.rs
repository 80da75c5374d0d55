//! `auth.*`: logging in, setting up, logging out.
//!
//! Owns the parameters and results of these methods. The rules are in [`super::auth`].

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::auth::password::{MAX_CHARS, MIN_CHARS};
use super::auth::{LoginError, NewLogin, Role};
use super::dispatcher::Call;
use super::error::{ErrorCode, RpcError};
use super::message::{self, NoParams};
use super::schema;
use crate::secrets::Secret;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginParams {
    password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupParams {
    token: String,
    password: String,
}

/// No parameters.
pub(super) fn none() -> Value {
    schema::object(&[])
}

/// Nothing to say but that it is done.
pub(super) fn empty() -> Value {
    schema::object(&[])
}

pub(super) fn login_params() -> Value {
    schema::object(&[("password", schema::text("the operator's password"))])
}

pub(super) fn setup_params() -> Value {
    let password = json!({
        "type": "string", "minLength": MIN_CHARS, "maxLength": MAX_CHARS,
        "description": "the new password",
    });
    schema::object(&[
        ("token", schema::text("the one-time token that the daemon printed at its first start")),
        ("password", password),
    ])
}

pub(super) fn credentials() -> Value {
    schema::object(&[
        ("csrf_token", schema::text("for the header X-CSRF-Token")),
        ("role", schema::one_of(&Role::ALL.map(Role::as_str))),
    ])
}

/// Runs an `auth.*` method.
pub(super) async fn handle(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    match method {
        "auth.login" => {
            let LoginParams { password } = message::params(params)?;
            let new = call.services.auth.login(Secret::new(password), call.client).await;
            opened(call, new)
        }
        "auth.setup" => {
            let SetupParams { token, password } = message::params(params)?;
            let (token, password) = (Secret::new(token), Secret::new(password));
            let new = call.services.auth.setup(token, password, call.client).await;
            opened(call, new)
        }
        "auth.whoami" => {
            let NoParams {} = message::params(params)?;
            let login = call.login()?;
            Ok(json!({ "csrf_token": login.csrf, "role": login.role }))
        }
        "auth.logout" => {
            let NoParams {} = message::params(params)?;
            let login = call.login()?.clone();
            call.services.turns.stop_session(&login.session_id);
            call.services.auth.logout(&login).await.map_err(|_| {
                RpcError::new(
                    ErrorCode::Internal,
                    "logged out, but that could not be stored: the session may come back with a restart",
                )
            })?;
            Ok(json!({}))
        }
        _ => Err(super::dispatcher::no_such_method(method)),
    }
}

fn opened(call: &mut Call<'_>, new: Result<NewLogin, LoginError>) -> Result<Value, RpcError> {
    let new = new.map_err(refused)?;
    let result = json!({ "csrf_token": new.login.csrf, "role": new.login.role });
    call.new_token = Some(new.token);
    Ok(result)
}

fn refused(error: LoginError) -> RpcError {
    let message = error.to_string();
    match error {
        LoginError::Failed => RpcError::new(ErrorCode::LoginFailed, message),
        LoginError::Throttled { wait_s } => {
            RpcError::new(ErrorCode::Throttled, message).with(json!({ "retry_after_s": wait_s }))
        }
        LoginError::SetUpAlready => RpcError::new(ErrorCode::SetUpAlready, message),
        LoginError::Password(_) => RpcError::params(message),
        LoginError::Internal => RpcError::new(ErrorCode::Internal, message),
    }
}
