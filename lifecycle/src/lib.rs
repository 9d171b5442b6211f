//! What every Tenon process shares of its life: logs, admin server, readiness and drain.
