import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'
import { inOneLine } from '../../policy/text.ts'

/** An event with the data for its message. The data comes from the workflow, run and approval that the event names. */
export interface EventRow {
  readonly id: string
  readonly organization_id: string
  readonly type: WebhookEvent
  readonly data: EventData
  readonly created_at: Date
  readonly workflow_id: string | null
  readonly workflow_name: string | null
  /** The person who requested the approval or the run, or the person of the agent's session. */
  readonly requested_by: string | null
  readonly approval: ApprovalPart | null
}

interface ApprovalPart {
  readonly kind: string
  readonly run_id: string | null
  readonly session_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly tool: string | null
  readonly rule_name: string | null
  readonly risk: string
  readonly approver: string
  readonly expires_at: string | null
  readonly changes_requested: boolean
}

/**
 * Returns the body of the requests for an event. The body has the fields of Standard Webhooks: `type`, `timestamp` and
 * `data`. It contains ids, names, verdicts and a link, but never the name or the value of a parameter. Empty fields are
 * left out. `base` is the public address of the service.
 */
export function messageOf(row: EventRow, base: string): string {
  const { data, approval } = row
  const { changes_requested: changesRequested, expires_at: expiresAt, ...ofApproval } = approval ?? {}
  const fields = {
    organization_id: row.organization_id,
    workflow_id: row.workflow_id,
    workflow_name: row.workflow_name,
    requested_by: row.requested_by,
    ...ofApproval,
    expires_at: expiresAt ? new Date(expiresAt).toISOString() : null,
    ...data,
    changes_requested: changesRequested === true && data.status === 'rejected' ? true : null,
  }
  const link = linkOf(row)
  const shown = { ...fields, link: link === null ? null : base + link }
  return JSON.stringify({
    type: row.type,
    timestamp: row.created_at.toISOString(),
    data: Object.fromEntries(
      Object.entries(shown)
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => [name, typeof value === 'string' ? short(value) : value]),
    ),
  })
}

function linkOf({ data }: EventRow): string | null {
  if (data.approval_id !== undefined) return `/console/approvals/${data.approval_id}`
  if (data.run_id) return `/console/runs/${data.run_id}`
  return data.session_id === undefined ? null : `/console/sessions/${data.session_id}`
}

/**
 * Each text in a message has at most this many characters. The limit is needed because an agent chooses the names of
 * its tools, and these names could be very long.
 */
const mostCharacters = 300

function short(text: string): string {
  const line = inOneLine(text)
  return line.length <= mostCharacters ? line : `${line.slice(0, mostCharacters - 1).toWellFormed()}…`
}
