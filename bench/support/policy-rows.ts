import type pg from 'pg'

/** The organization of the rows, unless another one is given. */
export const organizationId = 'org_01J00000000000000000000000'

/**
 * Adds entries of 100 days and 500 people to an audit chain. 95 of 100 entries are decisions. The hashes are not valid.
 * The organization is made if it does not exist.
 */
export async function fillAudit(client: pg.Client, entries: number, into = organizationId): Promise<void> {
  await client.query('insert into organizations (id, name) values ($1, $1) on conflict do nothing', [into])
  const { rows } = await client.query<{ before: number }>(
    `insert into chain_head (organization_id, seq) values ($1, $2)
     on conflict (organization_id) do update set seq = chain_head.seq + $2 returning (seq - $2)::int as before`,
    [into, entries],
  )
  await client.query(
    `insert into users (id, email, name) select 'usr_' || n, n || '@acme.example', 'n' from generate_series(0, 499) as n`,
  )
  await client.query(
    `insert into audit_events (canonical, hash)
     select '{"action":"Bash","actor":{"id":"usr_' || n % 500 || '","type":"user"},"event_type":"'
         || case when n % 1000 = 0 then 'rule.created' when n % 20 = 0 then 'memory.set' else 'agent_call.decided' end
         || '","id":"evt_' || lpad((n + $3::int)::text, 26, '0') || '","metadata":{"explanation":"' || repeat('x', 400)
         || '"},"organization_id":"' || $1 || '","seq":' || n + $3
         || ',"status":"' || (array['allow','allow','allow','require_approval','deny'])[n % 5 + 1]
         || '","timestamp":"' || to_char((now() - interval '100 days' * (1 - n::float8 / $2)) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
         || '","user_id":"usr_' || n % 500 || '"}', repeat('0', 64)
     from generate_series(1, $2::int) as n`,
    [into, entries, rows[0]?.before],
  )
}

/**
 * Writes approvals of 90 days, each with a vote. One tenth is for whole runs, half is for steps, and the rest is for
 * calls of agents.
 */
export async function fillApprovals(
  client: pg.Client,
  approvals: number,
  into = organizationId,
): Promise<void> {
  const at = `now() - interval '90 days' * (n::float8 / $1)`
  await client.query(
    `insert into workflows (id, organization_id, name, current_version, created_by)
     select 'wf_' || n, $1, 'Workflow ' || n, 1, 'usr_0' from generate_series(0, 299) as n`,
    [into],
  )
  await client.query(
    `insert into workflow_versions (workflow_id, version, definition, digest, deployed_by, authors, step_authors, tools)
     select 'wf_' || n, 1, '{"steps":[{"id":"a","tool":"mail_send"}],"categories":["financial"]}', '', 'usr_0', '[]', '[]', '{mail_send}'
     from generate_series(0, 299) as n`,
  )
  await client.query(
    `insert into runs (id, organization_id, workflow_id, workflow_version, interpreter_version, status, status_reason,
       requested_by, requester_email, input_hash, time_zone, risk, created_at, finished_at)
     select 'run_' || n, $2, 'wf_' || n % 300, 1, 1, 'completed', '', 'usr_0', '', '', 'UTC', '{}', ${at}, now()
     from generate_series(1, $1::int) as n`,
    [approvals, into],
  )
  await client.query(
    `insert into run_steps (run_id, step_id, position, tool) select 'run_' || n, 'a', 1, 'mail_send'
     from generate_series(1, $1::int) as n`,
    [approvals],
  )
  await client.query(
    `insert into approvals (id, organization_id, kind, status, run_id, workflow_id, tool, rule_id, rule_name, labels, risk,
       requested_by, approver, approvals_needed, created_at, decided_at, params_sealed)
     select 'apr_' || lpad(n::text, 26, '0'), $2, kind, (array['approved','approved','approved','rejected'])[n % 4 + 1],
       case when kind <> 'agent_call' then 'run_' || n end, case when kind <> 'agent_call' then 'wf_' || n % 300 end,
       case when kind <> 'run' then 'mail_send' end, case when kind <> 'run' then 'rule_' || n % 1000 end, 'Rule', '{}',
       '{}', 'usr_0', 'admin', 1, ${at}, ${at} + interval '1 s' * (n % 3600), decode(repeat('00', 500), 'hex')
     from (select n, (array['run','step','step','step','step','step','agent_call','agent_call','agent_call','agent_call'])[n % 10 + 1] as kind
           from generate_series(1, $1::int) as n) as numbered`,
    [approvals, into],
  )
  await client.query(
    `insert into approval_votes (approval_id, user_id, decision, at)
     select id, 'usr_' || (hashtext(id) & 7), case status when 'approved' then 'approve' else 'reject' end, decided_at
     from approvals`,
  )
}

/** Writes mails about approvals of `fillApprovals`, of which one of 500 has failed, to 500 people. */
export async function fillMessages(client: pg.Client, messages: number, into: string): Promise<void> {
  await client.query(
    `insert into notifications (id, organization_id, channel, event, kind, subject, recipient, message_id, state, shown,
       attempts, last_error, created_at, sent_at)
     select id, $2, 'mail', 'approval.created', 'approval', 'apr_' || lpad(n::text, 26, '0'), 'usr_' || n % 500, id,
       case when n % 500 = 0 then 'failed' else 'sent' end, 1, 1, case when n % 500 = 0 then 'mail_refused' end, now(),
       case when n % 500 > 0 then now() end
     from (select n, 'ntf_' || lpad(n::text, 26, '0') as id from generate_series(1, $1::int) as n) as numbered`,
    [messages, into],
  )
}
