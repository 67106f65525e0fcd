import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { rulesPath, tryPath } from '../../contract/pages.ts'
import { empty, Fields, labelled, Refused, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { lines } from '../parts/rule-fields.ts'
import { RuleVerdict } from '../parts/rule.tsx'
import { Asks, Badge, effectTitle, Labels, type Tone } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { capital, Message, Words } from '../parts/words.tsx'
import { problemPage } from './plain.tsx'
import {
  decidedBy,
  isAtLeast,
  organizationId,
  type ApprovalView,
  type Form,
  type PersonsVisit,
  type Problem,
  type Shown,
} from '../visit.ts'

/* `/console/rules/try`: what the saved rules would decide about a call. Nothing is called. */

type Trial = AnswerOf<'POST /organizations/{id}/rules/test'>
type Call = BodyOf<'POST /organizations/{id}/rules/test'>['call']

const notMember: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'trying a call needs the role `member`: an owner gives it',
}

const fieldNames = {
  tool: 'Tool',
  source: 'Whose call',
  params: 'Parameters',
  labels: 'Labels of the data',
  destination: 'Host',
}

/** `GET /console/rules/try`. `?approval=` fills in the call of this approval. */
export async function tryRulesPage(
  visit: PersonsVisit,
  given: Filled = empty,
  trial: Trial | null = null,
): Promise<Shown> {
  if (!isAtLeast(visit, 'member')) return problemPage(notMember, visit.place)
  const filled = labelled(given, fieldNames, {}, 'Nothing was decided. Change this:')
  const [recent, chosen, tools] = await Promise.all([recentCalls(visit), chosenCall(visit), toolNames(visit)])
  return {
    status: filled.problem?.status ?? 200,
    title: 'Try a call',
    main: (
      <article class="page">
        <header class="headline">
          <p class="crumbs small">
            <a href={rulesPath}>Rules</a>
          </p>
          <h1>Try a call</h1>
          <p>What would the rules decide about a call? Nothing is called, and nothing is recorded.</p>
        </header>
        <Refused filled={filled} />
        {trial === null ? null : <Answer trial={trial} />}
        <div class="columns">
          <div class="column">
            <section aria-labelledby="call">
              <h2 id="call">The call</h2>
              <CallForm visit={visit} filled={filled} chosen={chosen} tools={tools} />
            </section>
          </div>
          <div class="column">
            <section aria-labelledby="recent">
              <h2 id="recent">Recent calls</h2>
              <Recent calls={recent} now={visit.now} />
            </section>
          </div>
        </div>
      </article>
    ),
  }
}

/** Those that an approval covers: others keep no parameters that people may see. */
async function recentCalls({ api, person }: PersonsVisit): Promise<readonly ApprovalView[]> {
  const own = person.organization === null ? {} : { organization_id: person.organization.id }
  const listed = await api.call('GET /approvals', { query: { ...own, limit: '20' } })
  return listed.ok ? listed.body.data.filter(({ tool, params }) => tool !== null && params !== undefined) : []
}

async function chosenCall({ api, query }: PersonsVisit): Promise<ApprovalView | null> {
  const id = query.get('approval')
  if (id === null) return null
  const found = await api.call('GET /approvals/{id}', { params: { id } })
  return found.ok ? found.body : null
}

async function toolNames({ api, person }: PersonsVisit): Promise<readonly string[]> {
  const own = person.organization === null ? {} : { organization_id: person.organization.id }
  const listed = await api.call('GET /tools', { query: { ...own, limit: '200' } })
  return listed.ok ? listed.body.data.map(({ name }) => name) : []
}

const sources = [
  ['', 'As the tool says'],
  ['workflows', 'A workflow'],
  ['agents', 'An agent'],
] as const

function CallForm(props: {
  visit: PersonsVisit
  filled: Filled
  chosen: ApprovalView | null
  tools: readonly string[]
}) {
  const { visit, filled, chosen, tools } = props
  return (
    <PostForm action={tryPath} token={visit.token} class="fill">
      <Fields
        filled={filled}
        fields={[
          {
            name: 'tool',
            most: 200,
            value: chosen?.tool ?? '',
            suggested: tools,
            help: 'Such as mail_send, or Bash for an agent.',
          },
          { name: 'source', options: sources, value: sourceOf(chosen) },
          {
            name: 'params',
            rows: 6,
            most: 100_000,
            optional: true,
            value: chosen?.params === undefined ? '' : JSON.stringify(chosen.params, null, 2),
            help: 'As JSON, such as {"to": "ann@acme.com"}.',
          },
          {
            name: 'labels',
            most: 2_000,
            optional: true,
            value: (chosen?.labels ?? []).join(' '),
            help: 'Of what the call sends, with blanks between them.',
          },
          {
            name: 'destination',
            most: 261,
            optional: true,
            value: chosen?.destination ?? '',
            help: 'To which a call of a workflow goes. Empty: that of your present connection.',
          },
        ]}
      />
      <button class="primary">Ask the rules</button>
    </PostForm>
  )
}

const sourceOf = (call: ApprovalView | null): string =>
  call === null ? '' : call.kind === 'agent_call' ? 'agents' : 'workflows'

const Recent = ({ calls, now }: { calls: readonly ApprovalView[]; now: Date }) =>
  calls.length === 0 ? (
    <p class="quiet">A call that was held stands here, if you may see its parameters.</p>
  ) : (
    <ul class="rows">
      {calls.map((call) => (
        <li class="row">
          <a href={`${tryPath}?approval=${call.id}`}>
            <Asks approval={call} />
          </a>
          <span class="quiet small">
            <Words text={call.tool ?? ''} most={120} />, <Time at={call.created_at} now={now} />
          </span>
        </li>
      ))}
    </ul>
  )

const decisions: Readonly<Record<Trial['decision'], readonly [Tone, string]>> = {
  allow: ['good', 'It would be allowed'],
  require_approval: ['hold', 'It would wait for approval'],
  deny: ['bad', 'It would be denied'],
}

function Answer({ trial }: { trial: Trial }) {
  const [tone, word] = decisions[trial.decision]
  const { matched_rules: rules, approval } = trial
  return (
    <section class="card" aria-labelledby="answer" role="status">
      <h2 id="answer">
        <Badge tone={tone} word={word} />
      </h2>
      <p>
        <Message text={trial.explanation} />
      </p>
      <Facts
        facts={[
          ['What it does', effectTitle(trial.side_effect)],
          ['Labels', trial.labels.length === 0 ? null : <Labels labels={trial.labels} />],
          ['Who approves', approval === null ? null : capital(decidedBy(approval.approvers))],
          ['Rules that match', rules.length === 0 ? 'none' : <Matched rules={rules} />],
        ]}
      />
    </section>
  )
}

const Matched = ({ rules }: { rules: Trial['matched_rules'] }) => (
  <ul class="bullets">
    {rules.map(({ id, name, verdict, shadow }) => (
      <li>
        <a href={`${rulesPath}/${id}`}>
          <Words text={name} most={200} />
        </a>{' '}
        <RuleVerdict verdict={verdict} />
        {shadow ? <span class="quiet small"> in shadow: decides nothing</span> : null}
      </li>
    ))}
  </ul>
)

/** `POST /console/rules/try` */
export async function tryRules(visit: PersonsVisit, form: Form): Promise<Shown> {
  const params = paramsOf(form.get('params') ?? '')
  if (params === null) return tryRulesPage(visit, { form, problem: noJson })
  const text = (name: string): string => (form.get(name) ?? '').trim()
  const source = text('source')
  const call = {
    tool: text('tool'),
    params,
    labels: lines(text('labels')),
    ...(source === '' ? {} : { source }),
    ...(text('destination') === '' ? {} : { destination: text('destination') }),
  } as Call
  const asked = await visit.api.call('POST /organizations/{id}/rules/test', {
    params: { id: organizationId(visit) },
    body: { call },
  })
  if (asked.ok) return tryRulesPage(visit, { form, problem: null }, asked.body)
  const details = (asked.details ?? []).map(({ path, message }) => ({
    path: path.replace(/^call\.?/, ''),
    message: message.replaceAll('`agents`', '“An agent”'),
  }))
  return tryRulesPage(visit, { form, problem: { ...asked, details } })
}

function paramsOf(text: string): Call['params'] | null {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Call['params'])
      : null
  } catch {
    return null
  }
}

const message = 'must be an object in JSON, such as `{"to": "ann@acme.com"}`'
const noJson: Problem = {
  status: 422,
  code: 'validation_error',
  message,
  details: [{ path: 'params', message }],
}
