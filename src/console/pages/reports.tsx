import type { ComponentChildren } from 'preact'
import type { AnswerOf } from '../../api/routes/index.ts'
import { reportsPath, rulesPath } from '../../contract/pages.ts'
import { addressOf, Choice, chosenOf, Empty, Field, Table, type Chosen } from '../parts/list.tsx'
import { Bar, Columns, type Series } from '../parts/plot.tsx'
import { Badge } from '../parts/state.tsx'
import { distance } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { organizationId, type PersonsVisit, type Problem, type Result, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { sessionsPath } from './sessions.tsx'
import { dayAfter } from './runs.tsx'

/* `/console/reports`: admins see how much was held in a time, how people decided, and how fast. */

type Answer = AnswerOf<'GET /organizations/{id}/governance/report'>
type Report = Extract<Answer, { readonly held: number }>
type Query = Readonly<Partial<Record<'period' | 'from' | 'to', string>>>

const day = 86_400_000
const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** A month (`2026-11`), a period, or days, of which the last one counts too. Days are in UTC. */
export function queryOf({ time = '30d', from, to }: Chosen): Query {
  if (from !== undefined || to !== undefined) {
    return {
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to: dayAfter(to) }),
    }
  }
  const [, year, month] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(time) ?? []
  if (year === undefined || month === undefined) return { period: time }
  return { from: `${time}-01`, to: dayOf(Date.UTC(Number(year), Number(month), 1)) }
}

const names = ['time', 'from', 'to'] as const

function readReport(visit: PersonsVisit, chosen: Chosen, table?: TableName): Promise<Result<Answer>> {
  return visit.api.call('GET /organizations/{id}/governance/report', {
    params: { id: organizationId(visit) },
    query: { ...queryOf(chosen), ...(table === undefined ? {} : { table }) },
  })
}

/** `GET /console/reports` */
export async function reportsPage(visit: PersonsVisit): Promise<Shown> {
  const chosen = chosenOf(visit.query, names)
  const read = await readReport(visit, chosen)
  if (!read.ok) return problemPage(read, visit.place)
  // Without a table, the answer is the whole report.
  const report = read.body as Report
  return {
    status: 200,
    title: 'Reports',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Reports</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>{`How much was held ${timeWords(chosen)}, how people decided, and how fast. Days are in UTC.`}</p>
        </header>
        <Times chosen={chosen} now={visit.now} />
        <Signs report={report} />
        <Facts facts={factsOf(report)} />
        <Verdicts report={report} />
        {report.held === 0 ? (
          <Empty title="Nothing was held in this time.">
            Choose another time, or make <a href={rulesPath}>a rule</a> that holds calls for a person.
          </Empty>
        ) : (
          <>
            <Days report={report} chosen={chosen} now={visit.now} />
            <HoldingRules report={report} chosen={chosen} />
            <Approvers report={report} chosen={chosen} />
          </>
        )}
        <Agents report={report} chosen={chosen} />
      </article>
    ),
  }
}

const periods = [
  ['7d', 'the last 7 days'],
  ['30d', 'the last 30 days'],
  ['90d', 'the last 90 days'],
] as const

const monthWords = (month: string): string =>
  new Date(`${month}-01T00:00:00Z`).toLocaleDateString('en', {
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  })

function timeWords({ time = '30d', from, to }: Chosen): string {
  if (from !== undefined || to !== undefined)
    return [from === undefined ? '' : `from ${from}`, to === undefined ? '' : `to ${to}`].join(' ').trim()
  const found = periods.find(([name]) => name === time)
  return `in ${found?.[1] ?? (/^\d{4}-\d\d$/.test(time) ? monthWords(time) : time)}`
}

/** The newest 12 months. */
const monthsUntil = (now: Date) =>
  Array.from({ length: 12 }, (_, back) => {
    const month = dayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).slice(0, 7)
    return [month, monthWords(month)] as const
  })

function Times({ chosen, now }: { chosen: Chosen; now: Date }) {
  const areDays = chosen['from'] !== undefined || chosen['to'] !== undefined
  const value = areDays ? '' : (chosen['time'] ?? '30d')
  return (
    <>
      <form method="get" action={reportsPath} class="search">
        <Choice
          name="time"
          label="Time"
          chosen={{ time: value }}
          options={[...periods, ...monthsUntil(now)]}
          any={areDays ? 'other days' : null}
        />
        <button>Show</button>
      </form>
      <details open={areDays}>
        <summary class="link">Other days</summary>
        <form method="get" action={reportsPath} class="compare">
          <Field name="from" label="From the day" type="date" chosen={chosen} />
          <Field name="to" label="To the day" type="date" chosen={chosen} />
          <button>
            Show<span class="unseen"> these days</span>
          </button>
        </form>
      </details>
    </>
  )
}

/** From so many decisions on, a share says something. */
const fewest = 10

/** When people no longer read what they approve, or nobody is there to decide. */
function Signs({ report }: { report: Report }) {
  const { share_approved_within_ten_seconds: quick, approved, expired, held } = report
  const always = report.always_approved_rules.filter((rule) => rule.approved >= fewest)
  const signs = [
    ...(quick !== null && approved >= fewest && quick >= 0.2
      ? [
          `${percent(quick)} of all approvals came within ten seconds. Nobody reads a mail with its recipients in this time.`,
        ]
      : []),
    ...(always.length > 0
      ? [
          `${always.length === 1 ? 'One rule holds calls that people always approve' : `${always.length} rules hold calls that people always approve`}: they cost time and stop nothing. Leave the usual case out of their conditions.`,
        ]
      : []),
    ...(held >= fewest && expired / held >= 0.1
      ? [
          `${percent(expired / held)} of what was held expired: nobody was there to decide. Ask more people, or a group.`,
        ]
      : []),
  ]
  return signs.length === 0 ? null : (
    <section class="note stack" aria-labelledby="signs">
      <h2 id="signs">Look at this</h2>
      <ul class="bullets">
        {signs.map((sign) => (
          <li>{sign}</li>
        ))}
      </ul>
    </section>
  )
}

const percent = (share: number): string => `${Math.round(share * 100)} %`
const number = (value: number): string => value.toLocaleString('en')
const secondsWords = (seconds: number | null): string =>
  seconds === null ? '–' : seconds < 1 ? 'less than a second' : distance(seconds * 1_000)

function factsOf(report: Report) {
  const { held, approved, rejected, pending, expired, cancelled } = report
  const { share_approved_within_ten_seconds: quick } = report
  return [
    [
      'Runs',
      `${number(report.total_executions)} accepted, ${number(report.gated_executions)} of them asked a person`,
    ],
    [
      'Held',
      `${number(held)}: ${number(approved)} approved, ${number(rejected)} rejected, ${number(pending)} still wait, ${number(expired)} expired, ${number(cancelled)} wait no longer`,
    ],
    [
      'Speed',
      report.median_decision_seconds === null
        ? null
        : `half were decided within ${secondsWords(report.median_decision_seconds)}, and 95 of 100 within ${secondsWords(report.p95_decision_seconds)}`,
    ],
    [
      'Hurry',
      quick === null ? null : `${percent(quick)} of what was approved was approved within ten seconds`,
    ],
  ] as const
}

const verdicts = [
  ['allow', { word: 'allowed', tone: 'good' }],
  ['require_approval', { word: 'held', tone: 'wait' }],
  ['deny', { word: 'denied', tone: 'bad' }],
] as const satisfies readonly (readonly [keyof Report['decisions'], Series])[]

function Verdicts({ report: { decisions } }: { report: Report }) {
  const all = decisions.allow + decisions.require_approval + decisions.deny
  if (all === 0) return null
  const parts = verdicts.map(([verdict, series]) => ({ ...series, value: decisions[verdict] }))
  const words = parts.map(({ word, value }) => `${number(value)} ${word}`).join(', ')
  return (
    <section class="stack" aria-labelledby="verdicts">
      <h2 id="verdicts">What was decided about calls</h2>
      <Bar label={`Decisions: ${words}. The table below says the same.`} parts={parts} />
      <Table
        label="Decisions"
        head={['Verdict', 'Decisions', 'Share']}
        rows={parts.map(({ word, value }) => [
          word.charAt(0).toUpperCase() + word.slice(1),
          number(value),
          percent(value / all),
        ])}
      />
      <p class="quiet small">
        An approved call of a run counts twice as held: when it is held, and again right before it leaves.
      </p>
    </section>
  )
}

/** A table, and the file that has it for a program for tables. */
const tables = ['days', 'rules', 'approvers', 'agents'] as const
type TableName = (typeof tables)[number]

const Part = (props: { name: TableName; title: string; chosen: Chosen; children: ComponentChildren }) => (
  <section class="stack" aria-labelledby={props.name}>
    <div class="split">
      <h2 id={props.name}>{props.title}</h2>
      <a href={addressOf(`${reportsPath}/${props.name}.csv`, props.chosen)} download="">
        CSV<span class="unseen">{` of “${props.title}”`}</span>
      </a>
    </div>
    {props.children}
  </section>
)

const outcomes: readonly Series[] = [
  { word: 'approved', tone: 'good' },
  { word: 'rejected', tone: 'bad' },
  { word: 'other', tone: 'off' },
]

type Day = Report['by_day'][number]

const partsOfDay = ({ held, approved, rejected }: Day) => [approved, rejected, held - approved - rejected]

/** With the days between on which nothing was held, if they are few enough to draw. */
function allDays({ by_day: days, since, until }: Report, now: Date): readonly Day[] {
  const [first, last] = [days.at(0)?.day, days.at(-1)?.day]
  if (first === undefined || last === undefined) return []
  const begin = Math.max(Date.parse((since ?? first).slice(0, 10)), Date.parse(last) - 91 * day)
  const end = until === null ? now.getTime() : Date.parse(until) - 1
  const count = Math.floor((end - begin) / day) + 1
  if (count > 92 || begin > Date.parse(first)) return days
  const found = new Map(days.map((each) => [each.day, each]))
  const none = { held: 0, approved: 0, rejected: 0, expired: 0, median_decision_seconds: null }
  return Array.from({ length: count }, (_, at) => dayOf(begin + at * day)).map(
    (name) => found.get(name) ?? { day: name, ...none },
  )
}

function Days({ report, chosen, now }: { report: Report; chosen: Chosen; now: Date }) {
  const days = allDays(report, now)
  return (
    <Part name="days" title="Day by day" chosen={chosen}>
      <Columns
        label="What was held each day, and how it was decided. The table below says the same."
        series={outcomes}
        columns={days.map((each) => ({ name: each.day, values: partsOfDay(each) }))}
        words={number}
      />
      <Columns
        label="Half of each day’s decisions were made within this time. The table below says the same."
        series={[{ word: 'half decided within', tone: 'wait' }]}
        columns={days.map((each) => ({ name: each.day, values: [each.median_decision_seconds ?? 0] }))}
        words={secondsWords}
      />
      <details>
        <summary class="link">The days as a table</summary>
        <Table
          label="Days"
          head={['Day', 'Held', 'Approved', 'Rejected', 'Expired', 'Half decided within']}
          rows={report.by_day
            .toReversed()
            .map((each) => [
              each.day,
              number(each.held),
              number(each.approved),
              number(each.rejected),
              number(each.expired),
              secondsWords(each.median_decision_seconds),
            ])}
        />
      </details>
    </Part>
  )
}

/** Those that hold most, then those that always pass. */
const rulesOf = ({ top_rules: top = [], always_approved_rules: always = [] }: Answer) => [
  ...top,
  ...always.filter(({ rule_id: id }) => !top.some((each) => each.rule_id === id)),
]

const HoldingRules = ({ report, chosen }: { report: Report; chosen: Chosen }) => (
  <Part name="rules" title="Rules that hold most" chosen={chosen}>
    {rulesOf(report).length === 0 ? (
      <p class="quiet">No rule held anything: agents or workflows asked by themselves.</p>
    ) : (
      <Table
        label="Rules"
        head={['Rule', 'Held', 'Approved', 'Rejected', 'Half decided within']}
        rows={rulesOf(report).map((rule) => [
          <>
            <a href={`${rulesPath}/${rule.rule_id}`}>
              <Words text={rule.rule_name ?? rule.rule_id} most={200} />
            </a>{' '}
            {rule.always_approved ? <Badge tone="warn" word="Always approved" /> : null}
          </>,
          number(rule.held),
          number(rule.approved),
          number(rule.rejected),
          secondsWords(rule.median_decision_seconds),
        ])}
      />
    )}
  </Part>
)

const Approvers = ({ report, chosen }: { report: Report; chosen: Chosen }) => (
  <Part name="approvers" title="Who approved most" chosen={chosen}>
    {report.top_approvers.length === 0 ? (
      <p class="quiet">Nobody has approved anything.</p>
    ) : (
      <Table
        label="Approvers"
        head={['Person', 'Approving votes']}
        rows={report.top_approvers.map(({ name, email, user_id: id, approvals }) => [
          <Words text={name === null || name === email ? (email ?? id) : `${name} (${email ?? id})`} />,
          number(approvals),
        ])}
      />
    )}
  </Part>
)

const Agents = ({ report, chosen }: { report: Report; chosen: Chosen }) => (
  <Part name="agents" title="Agents" chosen={chosen}>
    {report.agents.length === 0 ? (
      <p class="quiet">
        No agent began to work in this time. <a href={sessionsPath}>All agents</a>
      </p>
    ) : (
      <Table
        label="Agents"
        head={['Agent', 'Sessions', 'Allowed', 'Held', 'Denied', 'Without a decision']}
        rows={report.agents.map((agent) => [
          <Words text={agent.agent_name} most={100} />,
          number(agent.sessions),
          number(agent.allowed),
          number(agent.held),
          number(agent.denied),
          number(agent.unapproved),
        ])}
      />
    )}
  </Part>
)

const rowsOf: Readonly<Record<TableName, (answer: Answer) => readonly object[]>> = {
  days: ({ by_day: days = [] }) => days,
  rules: rulesOf,
  approvers: ({ top_approvers: approvers = [] }) => approvers,
  agents: ({ agents = [] }) => agents,
}

const missing: Problem = { status: 404, code: 'not_found', message: 'there is no such table' }

/** `GET /console/reports/{table}.csv` */
export async function reportFile(visit: PersonsVisit): Promise<Shown> {
  const table = tables.find((each) => visit.params['table'] === `${each}.csv`)
  if (table === undefined) return problemPage(missing, visit.place)
  const read = await readReport(visit, chosenOf(visit.query, names), table)
  if (!read.ok) return problemPage(read, visit.place)
  const rows = rowsOf[table](read.body)
  const head = Object.keys(rows[0] ?? { nothing: null })
  return {
    file: {
      name: `countersign-${table}.csv`,
      rows: [head, ...rows.map((row) => Object.values(row) as (string | number | null)[])],
    },
  }
}
