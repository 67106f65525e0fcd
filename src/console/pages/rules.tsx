import type { AnswerOf } from '../../api/routes/index.ts'
import {
  inboxPath,
  labelRulePath,
  newLabelRulePath,
  rulesPath,
  ruleTemplatesPath,
  tryPath,
} from '../../contract/pages.ts'
import { ChangeWaits, waitingChanges } from '../parts/change.tsx'
import { labelled, Refused, Told } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { labelSentence } from '../parts/label-rule.tsx'
import { actions, addressOf, chosenOf, Empty, Pager, Search, Table, type Chosen } from '../parts/list.tsx'
import { SettingsFrom, type Managed } from '../parts/managed.tsx'
import {
  approversOf,
  groupSizes,
  lackingGroups,
  matchesOf,
  NobodyCan,
  RuleStatus,
  RuleVerdict,
} from '../parts/rule.tsx'
import { actOnRule, RuleActs, ruleResults } from '../parts/rule-acts.tsx'
import { capital, Message, OrganizationName, Words } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  waitsFor,
  type ApprovalView,
  type Form,
  type PersonsVisit,
  type Problem,
  type Result,
  type RuleView,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/rules`: the rules in words. Admins change them. */

export const mayChange = (visit: PersonsVisit): boolean => isAtLeast(visit, 'admin')

/** `GET /console/rules` */
export async function rulesPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const { labels: labelCursor, ...chosen } = chosenOf(visit.query, ['search', 'cursor', 'labels'])
  const params = { id: organizationId(visit) }
  const query = { limit: '50', ...chosen }
  const [listed, counts, labelRules, settings, sizes, changes, templates, findings] = await Promise.all([
    visit.api.call('GET /organizations/{id}/rules', { params, query }),
    visit.api.call('GET /organizations/{id}/rules/counts', { params, query }),
    visit.api.call('GET /organizations/{id}/label-rules', {
      params,
      query: {
        limit: '20',
        ...(chosen.search === undefined ? {} : { search: chosen.search }),
        ...(labelCursor === undefined ? {} : { cursor: labelCursor }),
      },
    }),
    mayChange(visit) ? visit.api.call('GET /organizations/{id}/governance', { params }) : null,
    groupSizes(visit),
    waitingChanges(visit),
    mayChange(visit) ? visit.api.call('GET /rule-templates', { query: { limit: '200' } }) : null,
    visit.query.has('findings') ? visit.api.call('GET /organizations/{id}/rules/analysis', { params }) : null,
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const countsOf = new Map(counts.ok ? counts.body.data.map((each) => [each.id, each]) : [])
  return {
    status: refused?.status ?? 200,
    title: 'Rules',
    main: (
      <article class="page">
        <header class="headline">
          <div class="split">
            <h1>Rules</h1>
            {mayChange(visit) ? (
              <a class="button primary" href={`${rulesPath}/new`}>
                Make a rule
              </a>
            ) : null}
          </div>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            Every call of a workflow or agent is checked against all rules. The strictest one that matches
            decides. A call that no rule matches is allowed.
          </p>
        </header>
        <Refused filled={labelled({ form: null, problem: refused }, {})} />
        <Told visit={visit} results={ruleResults} />
        {data.length === 0 && chosen.search === undefined ? null : (
          <Search path={rulesPath} label="Name" chosen={chosen} />
        )}
        {settings?.ok === true && !settings.body.approvals_enabled ? (
          <ApprovalsOff visit={visit} managed={settings.body.managed_by} />
        ) : null}
        {data.length === 0 && chosen.search !== undefined ? (
          <Empty title="No rule has this in its name.">
            <a href={rulesPath}>Show all rules</a>
          </Empty>
        ) : data.length === 0 ? (
          <Empty title="There is no rule yet, so every call is allowed.">
            A rule names calls, such as mails with confidential data, and says whether they are allowed,
            denied, or wait until people approve them.{' '}
            {mayChange(visit) ? (
              <a href={ruleTemplatesPath}>Make the first one from a template</a>
            ) : (
              'An admin or owner makes one.'
            )}
          </Empty>
        ) : (
          <Table
            label="Rules"
            head={[
              ...['Name', 'Does', 'Matches a call if', 'Who approves', 'State'],
              ...(mayChange(visit) ? [actions] : []),
            ]}
            rows={data.map((rule) =>
              rowOf(rule, visit, { sizes, changes: changes.get(rule.id), counts: countsOf.get(rule.id) }),
            )}
          />
        )}
        <Pager
          path={rulesPath}
          chosen={chosen}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest rules', next: 'Older rules' }}
        />
        <p class="links">
          <a href={tryPath}>Try a call</a>
          <a href={`${rulesPath}?findings=1#findings`}>Look for rules without effect</a>
        </p>
        {findings === null ? null : <Findings findings={findings} />}
        {templates?.ok === true ? (
          <Templates templates={templates.body.data} isOpen={visit.query.has('templates')} />
        ) : null}
        {labelRules.ok ? (
          <LabelRules
            visit={visit}
            listed={labelRules.body}
            changes={changes}
            chosen={{ ...chosen, labels: labelCursor }}
          />
        ) : null}
      </article>
    ),
  }
}

interface Marks {
  readonly sizes: Awaited<ReturnType<typeof groupSizes>>
  readonly changes: readonly ApprovalView[] | undefined
  /** Absent if they could not be read. */
  readonly counts: Counts | undefined
}

type Counts = AnswerOf<'GET /organizations/{id}/rules/counts'>['data'][number]

/** The API counts so far. */
const mostCounted = 1_000

const several = (count: number): string =>
  `${count.toLocaleString('en')}${count < mostCounted ? '' : ' or more'}`

/** What it held leads to what became of it. */
function Counted({ id, held, denied }: Counts) {
  if (held + denied === 0) return null
  return (
    <p class="small">
      {held === 0 ? null : (
        <a href={addressOf(inboxPath, { state: 'decided', rule_id: id })}>{`${several(held)} held`}</a>
      )}
      {held > 0 && denied > 0 ? ', ' : null}
      {denied === 0 ? null : `${several(denied)} denied`} in 30 days
    </p>
  )
}

function rowOf(rule: RuleView, visit: PersonsVisit, { sizes, changes, counts }: Marks) {
  const approvers = approversOf(rule)
  return [
    <>
      <a class="item-link" href={`${rulesPath}/${rule.id}`}>
        <Words text={rule.name} most={200} />
      </a>
      {rule.managed_by === null ? null : <span class="quiet small"> from a file</span>}
    </>,
    <RuleVerdict verdict={rule.verdict} />,
    <Message text={matchesOf(rule)} />,
    approvers === null ? (
      <span class="quiet">–</span>
    ) : (
      <>
        <Message text={capital(approvers)} />
        {lackingGroups(rule, sizes).length === 0 ? null : (
          <>
            {' '}
            <NobodyCan />
          </>
        )}
      </>
    ),
    <>
      <RuleStatus status={rule.status} />
      <ChangeWaits changes={changes} />
      {counts === undefined ? null : <Counted {...counts} />}
    </>,
    ...(mayChange(visit)
      ? [rule.managed_by === null ? <RuleActs visit={visit} kind="rule" rule={rule} /> : null]
      : []),
  ]
}

type Listed = AnswerOf<'GET /organizations/{id}/label-rules'>

function LabelRules(props: {
  visit: PersonsVisit
  listed: Listed
  changes: Awaited<ReturnType<typeof waitingChanges>>
  chosen: Chosen
}) {
  const { visit, listed, changes, chosen } = props
  return (
    <section class="stack" aria-labelledby="label-rules">
      <div class="split">
        <h2 id="label-rules">Rules that label</h2>
        {mayChange(visit) ? (
          <a class="button" href={newLabelRulePath}>
            Make a label rule
          </a>
        ) : null}
      </div>
      <p>They say what data is, such as confidential. Other rules decide what may be done with it.</p>
      {listed.data.length === 0 ? (
        <p class="quiet">There is none{chosen['search'] === undefined ? '' : ' with this in its name'}.</p>
      ) : (
        <Table
          label="Rules that label"
          head={['Name', 'What it does', 'State', ...(mayChange(visit) ? [actions] : [])]}
          rows={listed.data.map((rule) => [
            <>
              <a class="item-link" href={labelRulePath(rule.id)}>
                <Words text={rule.name} most={200} />
              </a>
              {rule.managed_by === null ? null : <span class="quiet small"> from a file</span>}
            </>,
            <Message text={labelSentence(rule)} />,
            <>
              <RuleStatus status={rule.status} />
              <ChangeWaits changes={changes.get(rule.id)} />
            </>,
            ...(mayChange(visit)
              ? [rule.managed_by === null ? <RuleActs visit={visit} kind="label_rule" rule={rule} /> : null]
              : []),
          ])}
        />
      )}
      <Pager
        path={rulesPath}
        chosen={chosen}
        cursor="labels"
        next={listed.next_cursor}
        words={{ first: 'Newest rules that label', next: 'Older rules that label' }}
      />
    </section>
  )
}

function ApprovalsOff({ visit, managed }: { visit: PersonsVisit; managed: Managed }) {
  return (
    <section class="note stack" aria-labelledby="off">
      <h2 id="off">Approvals are off</h2>
      <p>Until they are on, each call that a rule holds is denied.</p>
      {managed !== null ? (
        <SettingsFrom managed={managed} />
      ) : visit.person.organization?.role === 'owner' ? (
        <PostForm action={rulesPath} token={visit.token}>
          <button class="primary" name="action" value="approvals-on">
            Turn approvals on
          </button>
        </PostForm>
      ) : (
        <p>An owner turns them on.</p>
      )}
    </section>
  )
}

type Analysis = AnswerOf<'GET /organizations/{id}/rules/analysis'>

const Findings = ({ findings }: { findings: Result<Analysis> }) => (
  <section class="card" id="findings" aria-labelledby="findings-title">
    <h2 id="findings-title">Rules without effect</h2>
    {!findings.ok ? (
      <p>
        <Message text={findings.message} />
      </p>
    ) : findings.body.findings.length === 0 ? (
      <p>None was found.</p>
    ) : (
      <ul class="bullets">
        {findings.body.findings.map(({ message, rules: [first] }) => (
          <li>
            <Message text={message} />{' '}
            {first === undefined ? null : <a href={`${rulesPath}/${first.id}`}>Open it</a>}
          </li>
        ))}
      </ul>
    )}
    {findings.ok && findings.body.limit_reached !== null ? (
      <p class="quiet small">There are more rules than could be compared.</p>
    ) : null}
  </section>
)

type Template = AnswerOf<'GET /rule-templates'>['data'][number]

const Templates = ({ templates, isOpen }: { templates: readonly Template[]; isOpen: boolean }) => (
  <details id="templates" open={isOpen}>
    <summary class="button">Start from a template</summary>
    <Table
      label="Templates"
      head={['Template', 'What it does']}
      rows={templates.map(({ id, kind, title, description }) => [
        <a href={`${kind === 'rule' ? `${rulesPath}/new` : newLabelRulePath}?template=${id}`}>{title}</a>,
        <Message text={description} />,
      ])}
    />
  </details>
)

const act = (visit: PersonsVisit, form: Form): Promise<Result<unknown>> =>
  form.get('action') === 'approvals-on'
    ? visit.api.call('PATCH /organizations/{id}/governance', {
        params: { id: organizationId(visit) },
        body: { approvals_enabled: true },
      })
    : actOnRule(visit, form)

/** One after another, and a second time does nothing: a rule of the same name stays as it is. */
async function addStarterRules(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const templates = await visit.api.call('GET /rule-templates', { query: { limit: '200' } })
  if (!templates.ok) return templates
  const status = form.get('status') === 'active' ? 'active' : 'shadow'
  for (const { starter, kind, body } of templates.body.data) {
    if (!starter || kind !== 'rule') continue
    const made = await visit.api.call('POST /organizations/{id}/rules', {
      params: { id: organizationId(visit) },
      body: { ...body, status },
    })
    if (!made.ok && made.details?.some(({ path }) => path === 'name') !== true) return made
  }
  return templates
}

/** `POST /console/rules` */
export async function changeRules(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const done = await (action === 'starter' ? addStarterRules(visit, form) : act(visit, form))
  if (!done.ok) return rulesPage(visit, done)
  return {
    redirect: waitsFor(done.body) ?? (action === 'approvals-on' ? rulesPath : `${rulesPath}?done=${action}`),
  }
}
