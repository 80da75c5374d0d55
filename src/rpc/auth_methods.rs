//! `auth.*`: logging in, setting up, logging out; the sessions and passwords of the node.
//!
//! Owns the parameters and results of these methods. The rules are in [`super::auth`].

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::auth::password::{MAX_CHARS, MIN_CHARS};
use super::auth::{LoginError, NewLogin, Role};
use super::dispatcher::Call;
use super::error::{ErrorCode, RpcError};
use super::fields::wrong;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeParams {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetPasswordParams {
    role: Role,
    old: Option<String>,
    // Must be there, if only as `null`.
    #[serde(deserialize_with = "Option::deserialize")]
    new: Option<String>,
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
    schema::object(&[(
        "password",
        schema::text("the operator's or the viewers': it says which role"),
    )])
}

fn new_password() -> Value {
    json!({
        "type": "string", "minLength": MIN_CHARS, "maxLength": MAX_CHARS,
        "description": "the new password",
    })
}

pub(super) fn sessions_result() -> Value {
    let session = schema::object(&[
        ("id", schema::text("for auth.revoke")),
        ("role", role()),
        ("since", schema::count("Unix milliseconds")),
        ("last_seen", schema::count("Unix milliseconds, at most a minute old")),
        ("address", schema::or_null(schema::text("where it was opened from"))),
        ("current", schema::flag("is it the calling one?")),
    ]);
    schema::object(&[("sessions", schema::list(session))])
}

pub(super) fn revoke_params() -> Value {
    schema::object(&[("id", schema::text("as auth.sessions gives it"))])
}

pub(super) fn set_password_params() -> Value {
    schema::object(&[
        ("role", role()),
        ("old?", schema::text("the role's present password; the operator's own needs it")),
        ("new", schema::or_null(new_password())),
    ])
}

fn role() -> Value {
    schema::one_of(&Role::ALL.map(Role::as_str))
}

pub(super) fn setup_params() -> Value {
    schema::object(&[
        ("token", schema::text("the one-time token that the daemon printed at its first start")),
        ("password", new_password()),
    ])
}

pub(super) fn credentials() -> Value {
    schema::object(&[("csrf_token", schema::text("for the header X-CSRF-Token")), ("role", role())])
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
            opened(call, new, "password")
        }
        "auth.setup" => {
            let SetupParams { token, password } = message::params(params)?;
            let (token, password) = (Secret::new(token), Secret::new(password));
            let new = call.services.auth.setup(token, password, call.client).await;
            opened(call, new, "token")
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
        "auth.sessions" => {
            let NoParams {} = message::params(params)?;
            Ok(json!({ "sessions": call.services.auth.list(call.login()?) }))
        }
        "auth.revoke" => {
            let RevokeParams { id } = message::params(params)?;
            let ended =
                call.services.auth.revoke(&id).await.map_err(|error| refused(error, "id", "id"))?;
            let ended = ended.ok_or_else(|| {
                wrong("id", "it names no live session: ask auth.sessions for them")
            })?;
            call.services.turns.stop_session(&ended);
            Ok(json!({}))
        }
        "auth.set-password" => set_password(call, message::params(params)?).await,
        _ => Err(super::dispatcher::no_such_method(method)),
    }
}

async fn set_password(
    call: &Call<'_>,
    SetPasswordParams { role, old, new }: SetPasswordParams,
) -> Result<Value, RpcError> {
    if role == Role::Operator && old.is_none() {
        return Err(wrong("old", "this field is missing: the operator's present password"));
    }
    if role == Role::Operator && new.is_none() {
        return Err(wrong("new", "it is null, and the operator's password can't be taken away"));
    }
    let (old, new) = (old.map(Secret::new), new.map(Secret::new));
    let auth = &call.services.auth;
    let ended = auth.set_password(call.login()?, role, old, new, call.client).await;
    for session in ended.map_err(|error| refused(error, "old", "new"))? {
        call.services.turns.stop_session(&session);
    }
    Ok(json!({}))
}

/// `proof`: the parameter that has to match.
fn opened(
    call: &mut Call<'_>,
    new: Result<NewLogin, LoginError>,
    proof: &str,
) -> Result<Value, RpcError> {
    let new = new.map_err(|error| refused(error, proof, "password"))?;
    let result = json!({ "csrf_token": new.login.csrf, "role": new.login.role });
    call.new_token = Some(new.token);
    Ok(result)
}

/// `proof`: the parameter that has to match; `new`: the one with a new password.
fn refused(error: LoginError, proof: &str, new: &str) -> RpcError {
    let message = error.to_string();
    match error {
        LoginError::Failed => RpcError::new(ErrorCode::LoginFailed, message)
            .with(json!({ "field": proof, "detail": error.to_string() })),
        LoginError::Throttled { wait_s } => {
            RpcError::new(ErrorCode::Throttled, message).with(json!({ "retry_after_s": wait_s }))
        }
        LoginError::SetUpAlready => RpcError::new(ErrorCode::SetUpAlready, message),
        LoginError::Password(_) => wrong(new, message),
        LoginError::Internal => RpcError::new(ErrorCode::Internal, message),
    }
}
