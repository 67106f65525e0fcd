import type { AnswerOf } from '../../api/routes/index.ts'
import { limitNames, type LimitName } from '../../contract/plan-limits.ts'
import { settingsPath } from '../../contract/pages.ts'
import type { Form, PersonsVisit } from '../visit.ts'
import { Seen, problemsAt, Wrong, type Filled } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { Table } from './list.tsx'
import { capital } from './words.tsx'

/* The limits of the organization: those of its plan, what an owner has set instead, and how much is used. */

type Quota = AnswerOf<'GET /organizations/{id}/quota'>

/** What is counted, and what happens at the limit. */
const words: Readonly<Record<LimitName, readonly [title: string, effect: string]>> = {
  workflow_runs_per_hour: ['Runs in an hour', 'One more run is refused until an hour has passed.'],
  concurrent_executions: ['Runs at once', 'One more run waits. Runs that wait for a person do not count.'],
  queued_executions: ['Runs that wait for their turn', 'One more run is refused.'],
  monthly_spend: ['Cost of language models in a month', 'New runs and calls of models are refused.'],
  requests_per_minute: ['Requests in a minute', 'One more request is refused until the minute is over.'],
  requests_per_day: ['Requests in a day', 'One more request is refused until midnight (UTC).'],
  authorize_per_minute: ['Questions of agents in a minute', 'One more call of an agent waits or is denied.'],
  memory_mb: ['Memory, in MiB', 'No more values are remembered.'],
  storage_mb: ['All data, in MiB', 'What adds data is refused, and agents’ calls are denied.'],
  pending_approvals: ['Approvals that wait', 'What would need one more approval waits or is denied.'],
  rules: ['Rules', 'One more rule is refused.'],
}

export const limitLabels: Readonly<Record<string, string>> = Object.fromEntries(
  limitNames.map((name) => [name, words[name][0]]),
)

const number = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 1 })

export function Limits(props: {
  readonly quota: Quota
  readonly visit: PersonsVisit
  readonly filled: Filled
  readonly mayChange: boolean
}) {
  const { quota, visit, filled, mayChange } = props
  const table = <Rows quota={quota} filled={filled} mayChange={mayChange} />
  return (
    <section class="stack" aria-labelledby="limits">
      <h2 id="limits">Limits</h2>
      <p>
        {`The plan is ${quota.plan}. A limit holds at once, in every process. Runs that have started go on.`}
      </p>
      {visit.query.get('done') === 'limits' ? (
        <p class="note" role="status">
          The limits are saved, and hold at once.
        </p>
      ) : null}
      {mayChange ? (
        <PostForm action={settingsPath} token={visit.token} class="fill">
          <OnceField />
          <Seen value={quota.overrides} filled={filled} />
          {table}
          <p class="quiet small">
            Whole numbers, each at most 100 times the plan’s limit. An empty field means the plan’s limit.
          </p>
          <button class="primary" name="action" value="limits">
            Save the limits
          </button>
        </PostForm>
      ) : (
        <>
          {table}
          <p class="quiet">
            {quota.overrides_by === 'operator'
              ? 'Only the operator of this installation sets other limits. Ask them.'
              : 'An owner sets other limits.'}
          </p>
        </>
      )}
    </section>
  )
}

const Rows = ({ quota, filled, mayChange }: { quota: Quota; filled: Filled; mayChange: boolean }) => (
  <Table
    label="Limits"
    head={['Limit', 'In use', 'Plan', 'Set here instead']}
    rows={limitNames.map((name) => [
      <div class="stack">
        {words[name][0]}
        <span class="quiet small">{words[name][1]}</span>
      </div>,
      <Use name={name} quota={quota} />,
      number(quota.limits[name]),
      mayChange ? (
        <Override name={name} quota={quota} filled={filled} />
      ) : quota.overrides[name] === undefined ? (
        <span class="quiet">–</span>
      ) : (
        number(quota.overrides[name])
      ),
    ])}
  />
)

function Use({ name, quota }: { name: LimitName; quota: Quota }) {
  const used = quota.usage?.[name] ?? 0
  const most = quota.effective[name]
  return (
    <div class="stack">
      {`${number(used)} of ${number(most)}`}
      <meter
        min={0}
        max={most}
        low={most * 0.8}
        high={most * 0.95}
        optimum={0}
        value={Math.min(used, most)}
        aria-label={`${capital(words[name][0])}: ${number(used)} of ${number(most)}`}
      />
    </div>
  )
}

function Override({ name, quota, filled }: { name: LimitName; quota: Quota; filled: Filled }) {
  const wrong = problemsAt(filled, name)
  return (
    <>
      <input
        id={name}
        name={name}
        inputmode="numeric"
        maxlength={12}
        autocomplete="off"
        aria-label={`${words[name][0]}: set here instead`}
        value={filled.form?.get(name) ?? quota.overrides[name] ?? ''}
        {...(wrong.length > 0 ? { 'aria-invalid': true as const, 'aria-describedby': `${name}-wrong` } : {})}
      />
      <Wrong name={name} wrong={wrong} />
    </>
  )
}

/** What the form asks for; null removes an override. */
export const limitsOf = (form: Form) =>
  Object.fromEntries(
    limitNames.map((name) => {
      const text = (form.get(name) ?? '').replaceAll(/[\s,]/g, '')
      return [name, text === '' ? null : /^\d+$/.test(text) ? Number(text) : text]
    }),
  ) as Record<LimitName, number | null>
