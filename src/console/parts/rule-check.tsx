import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { counted } from '../../policy/units.ts'
import type { Verdict } from '../../policy/types.ts'
import { organizationId, type PersonsVisit, type Problem, type RuleBody } from '../visit.ts'
import { Live } from './layout.tsx'
import { Table } from './list.tsx'
import { ruleSentence } from './rule.tsx'
import { Labels } from './state.tsx'
import { Moment, Time } from './time.tsx'
import { Message, Words } from './words.tsx'

/*
 * What a rule would change, before it is saved: the newest recorded calls are decided again by the saved rules, and by
 * the saved rules with this one. The script asks again as somebody types (browser/page.ts).
 */

type Backtest = AnswerOf<'POST /organizations/{id}/rules/backtest'>
interface Effect {
  readonly ok: true
  readonly body: Backtest
  /** What it would change if it were active; null if it is. */
  readonly active: Backtest | null
  readonly draft: RuleBody
}
export type Checked = Effect | ({ readonly ok: false } & Problem)

/** Few enough to be answered while somebody types. */
const mostCalls = 500

type Draft = BodyOf<'POST /organizations/{id}/rules/backtest'>['rules'][number]

/** `replaces` is the id of the saved rule that the draft changes. */
export async function checkDraft(
  visit: PersonsVisit,
  draft: Draft,
  replaces: string | null,
): Promise<Checked> {
  const asked = (rule: Draft) =>
    visit.api.call('POST /organizations/{id}/rules/backtest', {
      params: { id: organizationId(visit) },
      body: { rules: [rule], beside_saved: { replaces }, most: mostCalls },
    })
  const isActive = (draft.status ?? 'active') === 'active'
  const [checked, active] = await Promise.all([
    asked(draft),
    isActive ? null : asked({ ...draft, status: 'active' }),
  ])
  if (checked.ok)
    // The route has read it.
    return { ...checked, active: active?.ok === true ? active.body : null, draft: draft as RuleBody }
  const details = checked.details?.map((each) => ({ ...each, path: each.path.replace(/^rules\.0\.?/, '') }))
  return { ...checked, ...(details === undefined ? {} : { details }) }
}

/** Stands on the page before the first check too, so that the script can replace it. */
export function RuleCheck({ checked, now }: { checked: Checked | null; now: Date }) {
  return (
    <Live name="check" version={checked === null ? '' : JSON.stringify(checked)}>
      {checked?.ok !== true ? null : (
        <section class="note stack" aria-labelledby="check" role="status">
          <h2 id="check">What it would change</h2>
          <p>
            <Message text={ruleSentence(checked.draft)} />
          </p>
          <p>{stateWords[checked.draft.status]}</p>
          <Counts body={checked.body} />
          <Samples body={checked.body} now={now} />
          {checked.active === null ? null : (
            <>
              <h3>If it were active</h3>
              <Counts body={checked.active} />
              <Samples body={checked.active} now={now} />
            </>
          )}
        </section>
      )}
    </Live>
  )
}

const stateWords: Readonly<Record<RuleBody['status'], string | null>> = {
  active: null,
  shadow: 'In shadow it decides nothing: it only records what it would decide.',
  inactive: 'While it is off, it decides nothing.',
}

const becomes: Readonly<Record<Verdict, string>> = {
  allow: 'run',
  require_approval: 'wait for approval',
  deny: 'be denied',
}
const is: Readonly<Record<Verdict, string>> = {
  allow: 'allowed',
  require_approval: 'held',
  deny: 'denied',
}

/** `8 calls that are allowed now would wait for approval.` */
function changeWords(change: string, count: number): string {
  const [from, to] = change.split('->') as [Verdict, Verdict]
  return `${counted(count, 'call')} that ${count === 1 ? 'is' : 'are'} ${is[from]} now would ${becomes[to]}.`
}

function Counts({ body }: { body: Backtest }) {
  const { examined, changed, by_change: changes, not_replayable: left, oldest } = body
  const leftOut = left.reduce((sum, { count }) => sum + count, 0)
  return (
    <>
      <p>
        {examined === 0
          ? 'No call was recorded yet, so there is nothing to compare.'
          : changed === 0
            ? `None of the newest ${counted(examined, 'call')} would be decided otherwise.`
            : `Of the newest ${counted(examined, 'call')}, ${changed.toLocaleString('en')} would be decided otherwise.`}
        {oldest === null ? null : (
          <span class="quiet">
            {' '}
            The oldest of them is of <Moment at={oldest} />.
          </span>
        )}
      </p>
      {changed === 0 ? null : (
        <ul class="bullets">
          {Object.entries(changes).map(([change, count]) => (
            <li>{changeWords(change, count)}</li>
          ))}
        </ul>
      )}
      {leftOut === 0 ? null : (
        <p class="quiet small">
          {`${counted(leftOut, 'call')} could not be judged: `}
          {left.map(({ reason, count }) => `${count.toLocaleString('en')} ${reasons[reason]}`).join(', ')}.
        </p>
      )}
    </>
  )
}

const reasons: Readonly<Record<Backtest['not_replayable'][number]['reason'], string>> = {
  parameters_not_kept: 'whose parameters were not kept',
  parameters_not_shown: 'whose parameters only others may see',
  parameters_unreadable: 'whose parameters cannot be decrypted',
  policy_decided: 'that no rule decides, but a tool policy, a role or a freeze',
  tool_unknown: 'of a tool that does not exist any more',
}

function Samples({ body: { samples, changed }, now }: { body: Backtest; now: Date }) {
  if (samples.length === 0) return null
  const rows = samples.map((sample) => {
    const { run_id: run, step_id: step, session_id: session, to, from, labels } = sample
    const path = session === null ? `/console/runs/${run ?? ''}` : null
    return [
      <>
        {path === null ? (
          <Words text={sample.tool} most={120} />
        ) : (
          <a href={path}>
            <Words text={step === null ? sample.tool : `${sample.tool} of step ${step}`} most={120} />
          </a>
        )}
      </>,
      <>
        {`${is[from.verdict]} now, would ${becomes[to.verdict]}. `}
        <span class="quiet">
          <Message text={to.explanation} most={400} />
        </span>
      </>,
      labels.length === 0 ? null : <Labels labels={labels} />,
      <Time at={sample.decided_at} now={now} />,
    ]
  })
  return (
    <details open={changed <= 5}>
      <summary>{`Show ${changed > samples.length ? `the newest ${samples.length}` : 'them'}`}</summary>
      <Table
        label="Calls that would be decided otherwise"
        head={['Call', 'Decision', 'Labels', 'When']}
        rows={rows}
      />
    </details>
  )
}
