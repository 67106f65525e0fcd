import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { shownOfShell } from '../../policy/shell-params.ts'
import type { JsonObject } from '../../policy/types.ts'
import { Diff } from './diff.ts'
import { Facts } from './facts.ts'
import { Host } from './state.ts'
import type { RunSummary } from './outcome.ts'
import { Values } from './values.ts'
import { WholeRun } from './whole-run.ts'
import { visible } from '../../policy/readers/look-alikes.ts'
import { LongText, Words } from './words.ts'

const past: Readonly<Record<string, string>> = { read: 'read', write: 'changed', egress: 'sent' }

/** Returns the heading. The heading claims only what is known: that the call was asked for, approved or made. */
function headingOf({ kind, status, side_effect }: ApprovalView, isDone: boolean): string {
  const what = past[side_effect ?? 'write'] ?? 'done'
  if (kind === 'run') return status === 'pending' ? 'What would run' : 'What was asked for'
  const isAgents = kind === 'agent_call'
  if (isDone) return isAgents ? 'What the agent did, as its client reports' : `What was ${what}`
  if (status === 'approved') return isAgents ? 'What the agent may do' : 'What was approved'
  if (status !== 'pending') return 'What was asked for'
  return isAgents ? 'What the agent would do' : `What would be ${what}`
}

/**
 * Returns the title above the exact parameters. Like the heading, this title claims only what is known about the call.
 */
function exactTitle({ kind, status }: ApprovalView, isDone: boolean): string {
  if (isDone) return kind === 'agent_call' ? 'Exactly as it was allowed' : 'Exactly as it ran'
  if (status === 'pending') return 'Exactly as it will run'
  return status === 'approved' ? 'Exactly as it was approved' : 'Exactly as it was asked for'
}

interface ContentsProps {
  readonly approval: ApprovalView
  /** The run of the approval. It is needed only for an approval of a whole run. Is null if the run was not read. */
  readonly run: RunSummary | null
  /** Whether the reader's role may decide the approval. */
  readonly mayDecide: boolean
  /** Whether the call is known to have been made. */
  readonly isDone: boolean
}

/** Shows exactly what the approval covers: the parameters of a call, or the steps and inputs of a whole run. */
export function Contents(props: ContentsProps): ComponentChild {
  return h('section', { 'aria-labelledby': 'contents' }, [
    h('h2', { id: 'contents' }, headingOf(props.approval, props.isDone)),
    h(props.approval.kind === 'run' ? WholeRun : OneCall, props),
  ])
}

function OneCall({ approval, isDone }: ContentsProps): ComponentChild {
  const { params, params_hash, tool, summary, preview } = approval
  const note = preview?.note === undefined ? null : h(Words, { text: preview.note, most: 1_000 })
  // If an agent's call changes an old text, the note explains the difference. So the note stands below the difference.
  // Any other note is a warning, and stands above the difference.
  const isDrawn = approval.kind === 'agent_call' && (preview?.diff?.before ?? null) !== null
  return [
    summary === null
      ? null
      : h('p', { class: 'quiet' }, [
          'The workflow says of this step: ',
          h(Words, { text: summary, most: 500 }),
        ]),
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only people who may decide see the parameters.')
      : [
          note !== null && !isDrawn ? h('p', { class: 'note' }, note) : null,
          preview?.diff === undefined
            ? null
            : h(Diff, { diff: preview.diff, isAgents: approval.kind === 'agent_call' }),
          note !== null && isDrawn ? h('p', { class: 'quiet small' }, note) : null,
          h(Parameters, { approval, params }),
          h(Around, { approval, params }),
          h('details', { class: 'exact' }, [
            h('summary', null, exactTitle(approval, isDone)),
            h('p', null, ['Tool ', h('code', null, h(Words, { text: tool ?? '' }))]),
            h(LongText, { text: JSON.stringify(params, null, 2), kind: 'json' }),
            h('p', { class: 'quiet small' }, [
              'SHA-256 of tool and parameters: ',
              h('code', null, params_hash),
            ]),
          ]),
        ],
  ]
}

/** Shows the parameters. A text that the difference above already shows is folded. */
function Parameters({
  approval,
  params,
}: {
  readonly approval: ApprovalView
  readonly params: JsonObject
}): ComponentChild {
  const { before, after, skipped } = approval.preview?.diff ?? { before: null, after: '', skipped: 0 }
  const isAbove = ([, value]: readonly [string, unknown]): boolean =>
    before !== null && skipped === 0 && (value === before || value === after)
  const shown = approval.kind === 'agent_call' ? shownOfShell(approval.tool, params) : params
  const all = Object.entries(inOrder(approval, shown))
  const [above, others] = [all.filter(isAbove), all.filter((entry) => !isAbove(entry))]
  return [
    others.length === 0 ? null : h(Values, { values: Object.fromEntries(others) }),
    above.length === 0
      ? null
      : h('details', { class: 'exact' }, [
          h('summary', null, `In full: ${above.map(([name]) => visible(name).slice(0, 40)).join(' and ')}`),
          h(Values, { values: Object.fromEntries(above) }),
        ]),
  ]
}

/** Shows what was read for the approvers besides the parameters: the connection, and what the service says. */
function Around({
  approval: { preview },
  params,
}: {
  readonly approval: ApprovalView
  readonly params: JsonObject
}): ComponentChild {
  const fields = (preview?.fields ?? []).filter(
    ({ name, said_by: host }) =>
      host !== undefined || (name === 'connection' && !Object.hasOwn(params, name)),
  )
  if (fields.length === 0) return null
  return h(Facts, {
    facts: fields.map(({ name, value, said_by: host }): readonly [string, ComponentChild] => {
      const text = h(Words, { text: value, most: 500 })
      if (host === undefined) return [name, text]
      return [name, [h('span', { class: 'quiet' }, [h(Host, { host }), ' says: ']), text]]
    }),
  })
}

/** Returns the parameters in the order of the tool's preview. All other parameters follow. */
function inOrder({ preview }: ApprovalView, params: JsonObject): JsonObject {
  const names = (preview?.fields ?? []).map(({ name }) => name).filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...names, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}
