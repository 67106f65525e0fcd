import type { AnswerOf } from '../../api/routes/index.ts'
import { rulesPath, tryPath } from '../../contract/pages.ts'
import { ChangeWaits, waitingChanges } from '../parts/change.tsx'
import { labelled, Refused } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { chosenOf, Empty, Pager, Search, Table } from '../parts/list.tsx'
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
import { Time } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'
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
  const chosen = chosenOf(visit.query, ['search', 'cursor'])
  const params = { id: organizationId(visit) }
  const [listed, settings, sizes, changes, templates, findings] = await Promise.all([
    visit.api.call('GET /organizations/{id}/rules', {
      params,
      query: { limit: '50', ...chosen },
    }),
    mayChange(visit) ? visit.api.call('GET /organizations/{id}/governance', { params }) : null,
    groupSizes(visit),
    waitingChanges(visit),
    mayChange(visit) ? visit.api.call('GET /rule-templates', { query: { limit: '200' } }) : null,
    visit.query.has('findings') ? visit.api.call('GET /organizations/{id}/rules/analysis', { params }) : null,
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
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
        {settings?.ok === true && !settings.body.approvals_enabled ? (
          <ApprovalsOff visit={visit} managed={settings.body.managed_by} />
        ) : null}
        <Search path={rulesPath} label="Name" chosen={chosen} />
        {data.length === 0 && chosen.search !== undefined ? (
          <Empty title="No rule has this in its name.">
            Search for another part, or <a href={rulesPath}>show all rules</a>.
          </Empty>
        ) : data.length === 0 ? (
          <Empty title="There is no rule yet, so every call is allowed.">
            A rule names calls, such as mails with confidential data, and says whether they are allowed,
            denied, or wait until people approve them.{' '}
            {mayChange(visit) ? (
              <a href={`${rulesPath}/new`}>Make the first one</a>
            ) : (
              'An admin or owner makes one.'
            )}
          </Empty>
        ) : (
          <Table
            label="Rules"
            head={['Name', 'Does', 'Matches a call if', 'Who approves', 'State', 'Changed']}
            rows={data.map((rule) => rowOf(rule, visit, { sizes, changes: changes.get(rule.id) }))}
          />
        )}
        <p class="links">
          <a href={tryPath}>Try a call</a>
          <a href={`${rulesPath}?findings=1#findings`}>Look for rules without effect</a>
        </p>
        {findings === null ? null : <Findings findings={findings} />}
        {templates?.ok === true ? <Templates templates={templates.body.data} /> : null}
        <Pager
          path={rulesPath}
          chosen={chosen}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest rules', next: 'Older rules' }}
        />
      </article>
    ),
  }
}

interface Marks {
  readonly sizes: Awaited<ReturnType<typeof groupSizes>>
  readonly changes: readonly ApprovalView[] | undefined
}

function rowOf(rule: RuleView, { now }: PersonsVisit, { sizes, changes }: Marks) {
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
    </>,
    <Time at={rule.updated_at} now={now} />,
  ]
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

const Templates = ({ templates }: { templates: readonly Template[] }) => (
  <details>
    <summary class="button">Start from a template</summary>
    <Table
      label="Templates"
      head={['Template', 'What it does']}
      rows={templates
        .filter(({ kind }) => kind === 'rule')
        .map(({ id, title, description }) => [
          <a href={`${rulesPath}/new?template=${id}`}>{title}</a>,
          <Message text={description} />,
        ])}
    />
  </details>
)

/** `POST /console/rules` */
export async function changeRules(visit: PersonsVisit, form: Form): Promise<Shown> {
  if (form.get('action') !== 'approvals-on') return rulesPage(visit, nothingDone)
  const done = await visit.api.call('PATCH /organizations/{id}/governance', {
    params: { id: organizationId(visit) },
    body: { approvals_enabled: true },
  })
  return done.ok ? { redirect: waitsFor(done.body) ?? rulesPath } : rulesPage(visit, done)
}
