import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { JsonObject } from '../../policy/types.ts'
import { Diff } from './diff.ts'
import { Values } from './values.ts'
import { LongText, Words } from './words.ts'

const past: Readonly<Record<string, string>> = { read: 'read', write: 'changed', egress: 'sent' }

/** The heading claims only what is known: whether the call was approved, or whether it was made. */
function headingOf({ kind, status, side_effect }: ApprovalView, isDone: boolean): string {
  const what = past[side_effect ?? 'write'] ?? 'done'
  if (kind === 'run') return status === 'pending' ? 'What would run' : 'What was asked for'
  if (isDone) return `What was ${what}`
  if (status === 'approved') return kind === 'agent_call' ? 'What the agent may do' : 'What was approved'
  if (status !== 'pending') return 'What was asked for'
  return kind === 'agent_call' ? 'What the agent would do' : `What would be ${what}`
}

/** Shows exactly the parameters with which the call will run or has run. */
export function Contents({
  approval,
  isDone,
}: {
  readonly approval: ApprovalView
  /** Whether the call is known to have been made. */
  readonly isDone: boolean
}): ComponentChild {
  const { params, params_hash, kind, tool, summary, preview } = approval
  const heading = h('h2', { id: 'contents' }, headingOf(approval, isDone))
  const note =
    summary === null
      ? null
      : h('p', { class: 'quiet' }, [
          'The workflow says of this step: ',
          h(Words, { text: summary, most: 500 }),
        ])
  if (kind === 'run')
    return h('section', { 'aria-labelledby': 'contents' }, [
      heading,
      h('p', null, 'All steps of the workflow. A rule may still hold a single call.'),
    ])
  return h('section', { 'aria-labelledby': 'contents' }, [
    heading,
    note,
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only people who may decide see the parameters.')
      : [
          preview?.note === undefined
            ? null
            : h('p', { class: 'note' }, h(Words, { text: preview.note, most: 1_000 })),
          preview?.diff === undefined ? null : h(Diff, { diff: preview.diff }),
          h(Values, { values: inOrder(approval, params) }),
          h('details', { class: 'exact' }, [
            h('summary', null, 'Exactly as it will run'),
            h('p', null, ['Tool ', h('code', null, h(Words, { text: tool ?? '' }))]),
            h(LongText, { text: JSON.stringify(params, null, 2) }),
            h('p', { class: 'quiet small' }, [
              'SHA-256 of tool and parameters: ',
              h('code', null, params_hash),
            ]),
          ]),
        ],
  ])
}

/** The parameters in the order of the tool's preview. */
function inOrder({ preview }: ApprovalView, params: JsonObject): JsonObject {
  const names = (preview?.fields ?? []).map(({ name }) => name).filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...names, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}
