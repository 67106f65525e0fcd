/**
 * Events that are sent to webhooks, and when each event happens. `npm run openapi` writes them into
 * docs/openapi.json.
 */
export const webhookEvents = {
  'approval.created': 'A run, a step or an agent’s call waits for a person.',
  'approval.decided': 'People approved or rejected. `status` is `approved` or `rejected`.',
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

/** The events that a webhook can choose in its field `events`. */
export const chosenEvents = (Object.keys(webhookEvents) as WebhookEvent[]).filter(
  (event) => event !== 'webhook.test',
)

/**
 * The data that the transaction of an event stores with it: ids and fixed words of the service, never a parameter or a
 * value. The rest of the message is read from the rows that these ids name.
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
  /** The person who voted last. */
  readonly decided_by?: string
}
