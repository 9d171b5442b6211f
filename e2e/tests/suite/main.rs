//! Runs the tests across processes, as `make test-e2e` does. An argument selects the tests whose
//! names contain it.

mod artifact;
mod boundary;
mod control_plane;
mod deploy;
mod failover;
mod gateway;
mod handlers;
mod health;
mod kubectl;
mod malformed;
mod node;
mod pool;
mod probe;
mod readiness;
mod refusals;
mod rights;
mod rollout;
mod schema;
mod tls;
mod traffic;
mod typescript;
mod web_socket;
mod worker;
mod writes;

use std::process::ExitCode;

use tenon_e2e::{Suite, audit};

/// Adds functions as tests. The name of a function states what it tests.
macro_rules! add {
    ($suite:ident . $method:ident : $($module:ident :: $test:ident),+ $(,)?) => {
        $($suite.$method(stringify!($test), $module::$test);)+
    };
}

fn main() -> anyhow::Result<ExitCode> {
    let mut suite = Suite::new()?;
    add! { suite.add:
        worker::an_applied_worker_answers,
        worker::an_update_switches_without_a_failed_request,
        worker::a_change_of_its_config_map_is_served,
        worker::a_change_of_its_secret_is_served,
        worker::a_worker_waits_for_its_config_map_and_secret,
        worker::a_bad_update_names_the_position_while_the_last_good_revision_serves,
        worker::a_missing_pool_is_named_while_the_accepted_revision_serves,
        worker::a_deleted_worker_answers_404,
        worker::a_worker_deleted_in_the_foreground_leaves_no_revision,
        worker::the_older_of_two_workers_keeps_a_shared_route,
        worker::a_handler_that_throws_does_not_show_its_details_to_the_caller,
        writes::a_new_worker_costs_a_revision_and_at_most_two_statuses,
        writes::a_failure_that_changes_is_written_once_each_time,
        health::a_worker_that_cannot_start_is_unhealthy_until_a_good_revision_serves,
        handlers::a_worker_calls_another_on_another_node,
        handlers::workers_that_call_one_another_in_a_loop_are_stopped,
        handlers::a_missed_scheduled_call_is_made_once_and_immediately,
        handlers::a_scheduled_call_that_fails_is_reported_by_an_event,
        handlers::a_schedule_that_is_never_due_is_reported_while_the_worker_serves,
        traffic::a_canary_gets_its_share_and_its_preview_host_serves_only_the_canary,
        traffic::no_request_fails_while_a_worker_is_rolled_back_and_forward,
        rollout::a_bad_canary_is_taken_back_while_the_stable_revision_serves,
        rollout::a_good_canary_gets_all_requests_without_a_failed_request,
        typescript::a_worker_in_typescript_answers_and_its_log_names_the_authors_positions,
        typescript::a_syntax_error_in_typescript_names_the_authors_position,
        typescript::a_start_error_in_typescript_names_the_authors_position_in_the_status,
        deploy::a_deployed_folder_serves_when_the_command_ends,
        deploy::a_failed_deployment_reports_the_reason,
        artifact::a_bundle_larger_than_an_object_is_pushed_and_served,
        artifact::static_files_are_pushed_with_the_code_and_served_by_routers,
        artifact::an_unavailable_artifact_is_reported_and_pulled_once_it_exists,
        kubectl::the_hello_example_is_applied_shown_described_and_deleted,
        node::a_killed_node_fails_only_the_invocations_that_it_had_begun,
        node::a_worker_that_ends_its_process_does_not_fail_its_neighbors,
        node::no_request_fails_while_a_node_is_replaced,
        node::an_endpoint_slice_of_a_tenant_adds_no_node,
        node::requests_to_a_pool_without_nodes_are_refused_with_no_node,
        pool::a_pool_creates_and_deletes_a_deployment_a_budget_and_a_service,
        pool::a_worker_that_requests_more_than_its_pool_allows_is_not_ready,
        pool::a_pool_waits_for_its_certificates_and_its_nodes_follow_their_changes,
        boundary::a_pool_that_does_not_allow_a_namespace_is_named_while_the_accepted_revision_serves,
        boundary::a_host_is_served_only_while_it_is_granted,
        boundary::a_grant_of_a_public_suffix_is_refused,
        gateway::an_http_route_serves_its_workers_and_reports_its_state,
        gateway::the_older_of_a_worker_and_an_http_route_keeps_a_shared_host,
        probe::a_probe_deploys_a_worker_requests_it_and_deletes_it,
        probe::a_failed_probe_reports_the_reason_and_deletes_its_worker,
        readiness::a_worker_that_is_ready_answers_with_its_newest_revision,
        refusals::a_quota_is_named_until_it_is_raised,
        refusals::a_policy_is_named_until_it_is_gone,
        refusals::a_bundle_that_does_not_fit_into_etcd_is_named_while_its_predecessor_serves,
        refusals::a_pool_whose_deployment_is_denied_reports_it,
        rights::the_operator_uses_every_right_that_the_chart_gives_it,
        web_socket::a_web_socket_echoes_in_both_versions_of_http,
        web_socket::either_side_can_end_a_web_socket,
        web_socket::a_slowly_read_web_socket_loses_no_message,
        web_socket::an_open_web_socket_stays_with_its_revision,
        web_socket::web_sockets_of_a_killed_node_end_and_open_elsewhere,
        schema::the_refusal_of_an_object_that_violates_its_schema_names_the_field,
        schema::the_largest_object_that_the_schema_allows_is_accepted,
        schema::the_schema_makes_revisions_immutable,
    }
    add! { suite.add_exclusive:
        health::a_standby_writes_the_reports_of_a_node,
        health::every_operator_sends_every_node_the_quarantine_that_one_operator_received,
        readiness::a_worker_is_not_ready_while_the_only_router_hangs,
        boundary::the_charts_policies_refuse_at_apply_what_the_operator_would_refuse,
        malformed::a_malformed_stored_object_does_not_stop_the_others,
        tls::certificates_are_issued_and_renewed_without_a_failed_request,
        control_plane::workers_are_served_without_an_operator,
        control_plane::a_worker_is_served_without_its_secret_by_restarted_operators,
        control_plane::cold_workers_start_while_the_only_operator_is_replaced,
        failover::a_paused_leader_writes_nothing_after_another_leads,
        failover::a_restarted_leader_writes_nothing,
        control_plane::a_standby_takes_over_from_a_killed_leader,
        control_plane::workers_are_served_without_the_api_server_and_updated_once_it_is_back,
    }
    Ok(suite.run())
}
