import type { ComponentChild } from 'preact'
import { describeConditions } from '../../policy/explain.ts'
import { askedWords, seatsOf } from '../../policy/seats.ts'
import { inboxPath } from '../../contract/pages.ts'
import { organizationId, type ApprovalView, type PersonsVisit } from '../visit.ts'
import { Diff, type Sides } from './contents.tsx'
import { Asks, Badge } from './state.tsx'
import { Time } from './time.tsx'
import { Facts, Hidden, Values, type Fields } from './values.tsx'
import { LongText, Sentence, Words } from './words.tsx'

/* A change of a rule, a setting or a group that waits for a second person. */

/** By the id of the rule or group that would change, the name of the tool, `settings` or `sign_in`. Only those that the reader may see. */
type WaitingChanges = ReadonlyMap<string, readonly ApprovalView[]>

/** An organization has at most 50. */
export async function waitingChanges(visit: PersonsVisit): Promise<WaitingChanges> {
  const listed = await visit.api.call('GET /approvals', {
    query: { kind: 'change', status: 'pending', limit: '50', organization_id: organizationId(visit) },
  })
  const objectOf = ({ params }: ApprovalView) => (params as Shown | undefined)?.object ?? ''
  return Map.groupBy(listed.ok ? listed.body.data : [], objectOf)
}

/** For the row of a rule or group in a list. */
export function ChangeWaits({ changes = [] }: { changes: readonly ApprovalView[] | undefined }) {
  return changes.map((change, index) => (
    <>
      {' '}
      <a href={`${inboxPath}/${change.id}`}>
        <Badge tone="hold" word={index === 0 ? 'A change waits' : 'Another change waits'} />
      </a>
    </>
  ))
}

/** For the page of a rule or group. */
export const WaitingNote = (props: { changes: readonly ApprovalView[] | undefined; now: Date }) =>
  props.changes === undefined ? null : (
    <section class="note stack" aria-labelledby="changes-wait">
      <h2 id="changes-wait">
        {`${props.changes.length === 1 ? 'A change waits' : 'Changes wait'} for a second person`}
      </h2>
      <ul class="bullets">
        {props.changes.map((change) => (
          <li>
            <a href={`${inboxPath}/${change.id}`}>
              <Asks approval={change} />
            </a>
            , asked for by <Words text={change.requester_email ?? change.requested_by} most={254} />{' '}
            <Time at={change.created_at} now={props.now} />
          </li>
        ))}
      </ul>
    </section>
  )

const sides: Sides = {
  before: 'as it is now',
  nothing: 'There is nothing now. ',
  after: 'after the change',
}

/** As the API gives it in `params`. */
interface Shown {
  readonly object: string | null
  readonly before: Fields | null
  readonly after: Fields | null
  readonly why: readonly string[]
  readonly example: {
    readonly call: { readonly tool: string; readonly labels: readonly string[]; readonly params: Fields }
  } | null
}

export const ChangedPolicy = ({ approval }: { readonly approval: ApprovalView }) => (
  <section aria-labelledby="contents">
    <h2 id="contents">
      {approval.status === 'pending'
        ? 'What would change'
        : approval.status === 'approved'
          ? 'What changed'
          : 'What was to change'}
    </h2>
    <Changed approval={approval} />
  </section>
)

function Changed({ approval }: { readonly approval: ApprovalView }) {
  const { params, preview, values_hidden: hidden } = approval
  if (params === undefined || preview === undefined)
    return hidden === undefined ? null : <Hidden hidden={hidden} />
  const { before, after, why, example } = params as unknown as Shown
  const decided = (name: string): string => preview.fields.find((field) => field.name === name)?.value ?? ''
  const rows = [
    ['Now', ruleWords(before)],
    ['Then', ruleWords(after)],
  ] as const
  return (
    <>
      {rows.every(([, words]) => words === null) ? null : (
        <Facts
          facts={rows.map(([name, words]): readonly [string, ComponentChild] => [name, words ?? 'nothing'])}
        />
      )}
      {preview.diff === undefined ? null : <Diff diff={preview.diff} sides={sides} kind="json" />}
      <h3>Why it needs a second person</h3>
      <ul class="bullets">
        {why.map((reason) => (
          <li>
            <Sentence text={reason} />
          </li>
        ))}
      </ul>
      {example === null ? null : (
        <>
          <h3>A call that would be decided less strictly</h3>
          <Facts
            facts={[
              [
                'Tool',
                <code>
                  <Words text={example.call.tool} />
                </code>,
              ],
              [
                'Labels',
                example.call.labels.length === 0 ? null : <Words text={example.call.labels.join(', ')} />,
              ],
              ['Now', <Sentence text={decided('decided now')} />],
              ['Then', <Sentence text={decided('decided then')} />],
            ]}
          />
          {Object.keys(example.call.params).length === 0 ? null : <Values values={example.call.params} />}
        </>
      )}
      <details class="exact">
        <summary>Exactly as it was asked for</summary>
        <LongText text={JSON.stringify(params, null, 2)} kind="json" />
      </details>
    </>
  )
}

const verdicts: Readonly<Record<string, string>> = { allow: 'allows', deny: 'denies' }
const states: Readonly<Record<string, string>> = { shadow: 'only reports: it ', inactive: 'is inactive: it ' }

/** "holds a call for 1 owner when …"; null if it is no rule. */
function ruleWords(body: Fields | null): ComponentChild {
  if (body === null || typeof body['verdict'] !== 'string') return null
  const does = verdicts[body['verdict']] ?? `holds, for ${askedWords(seatsOf(body), 'counted')},`
  const state = states[String(body['status'])] ?? ''
  return <Sentence text={`${state}${does} a call when ${describeConditions(body)}`} />
}
