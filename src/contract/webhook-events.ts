/** Each text says when the event happens. `npm run openapi` writes it into docs/openapi.json. */
export const webhookEvents = {
  'approval.created': 'A run, a step or an agent’s call waits for a person.',
  'approval.decided':
    'People approved or rejected, or edited what waited. `status` is `approved`, `rejected` or `revised`.',
  'approval.answered': 'A person answered a question of a run.',
  'approval.expired': 'Nobody decided in time.',
  'approval.withdrawn':
    'The call no longer waits: its run or session ended, or another approval replaced this one.',
  'run.completed': 'A run has completed.',
  'run.failed': 'A run has failed.',
  'run.denied': 'A rule denied a run: one that never started and has no `run_id`, or a call that ended it.',
  'run.rejected': 'A run ended because a person rejected it or one of its calls.',
  'run.expired': 'A run ended because nobody decided in time.',
  'run.cancelled': 'A run was cancelled.',
  'effect.unknown': 'Nobody can know whether a call took effect. A person must say what became of it.',
  'agent.unapproved_call': 'An agent reports a call that Countersign did not allow.',
  'webhook.test': 'An owner asked for a test. Every webhook gets it.',
} as const satisfies Readonly<Record<string, string>>

export type WebhookEvent = keyof typeof webhookEvents

export const chosenEvents = (Object.keys(webhookEvents) as WebhookEvent[]).filter(
  (event) => event !== 'webhook.test',
)

/**
 * The transaction of the event stores these ids, names and codes, and never a value of a call. The rest of
 * the message is read later from the rows with these ids.
 */
export interface EventData {
  readonly approval_id?: string
  readonly run_id?: string | null
  readonly workflow_id?: string | null
  readonly session_id?: string
  readonly step_id?: string | null
  readonly item_index?: number | null
  readonly tool?: string
  readonly status?: string
  readonly rule_name?: string
  readonly error_code?: string
  /** This person voted last. */
  readonly decided_by?: string
}
