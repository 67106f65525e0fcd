import { groupsPath, rulesPath, tryPath } from '../../contract/pages.ts'
import { seatsOf } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import { waitingChanges, WaitingNote } from '../parts/change.tsx'
import { changedSince, empty, labelled, onceOf, Refused, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { ManagedNote, release, released } from '../parts/managed.tsx'
import { RuleCheck, checkDraft, type Checked } from '../parts/rule-check.tsx'
import { withoutValue } from '../parts/conditions.tsx'
import { changedRule, changesOf, newRule } from '../parts/rule-fields.ts'
import { offeredIn, ruleAliases, RuleFields, ruleLabels } from '../parts/rule-form.tsx'
import {
  approversOf,
  editableOf,
  groupSizes,
  lackingGroups,
  matchesOf,
  NobodyCan,
  RuleFacts,
  RuleStatus,
  RuleVerdict,
} from '../parts/rule.tsx'
import { OneVersion, Versions, versionsQuery } from '../parts/rule-versions.tsx'
import { ChangeRule, ruleInText, RuleText, textOf } from '../parts/rule-text.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { Message, Words } from '../parts/words.tsx'
import {
  organizationId,
  waitsFor,
  type Form,
  type PersonsVisit,
  type Problem,
  type Result,
  type RuleBody,
  type RuleView,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { mayChange } from './rules.tsx'

/* `/console/rules/new` and `/console/rules/:id`: one rule, its form for admins, and its earlier versions. */

export const notAdmin: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'only admins and owners of an organization make rules',
}

export const Crumbs = () => (
  <p class="crumbs small">
    <a href={rulesPath}>Rules</a>
  </p>
)

/** `GET /console/rules/new` */
export async function newRulePage(
  visit: PersonsVisit,
  given: Filled = empty,
  checked: Checked | null = null,
): Promise<Shown> {
  const filled = labelled(given, ruleLabels, ruleAliases)
  if (!mayChange(visit)) return problemPage(notAdmin, visit.place)
  const [offered, template] = await Promise.all([
    offeredIn(visit, organizationId(visit)),
    templateOf(visit, filled.form?.get('template') ?? visit.query.get('template')),
  ])
  return {
    status: filled.problem?.status ?? 200,
    title: 'Make a rule',
    main: (
      <article class="page medium">
        <header class="headline">
          <Crumbs />
          <h1>Make a rule</h1>
        </header>
        <Refused filled={filled} />
        <PostForm action={`${rulesPath}/new`} token={visit.token} class="card fill" data-check>
          <OnceField />
          {template === null ? null : <input type="hidden" name="template" value={template.id} />}
          <RuleFields rule={template?.body ?? null} offered={offered} filled={filled} />
          <RuleCheck checked={checked} now={visit.now} />
          <div class="buttons">
            <button class="primary">Make the rule</button>
            <CheckButton />
          </div>
        </PostForm>
      </article>
    ),
  }
}

/** A rule to start from, whose parts that the form does not show stay as they are; it begins active. */
async function templateOf({ api }: PersonsVisit, wanted: string | null) {
  if (wanted === null) return null
  const listed = await api.call('GET /rule-templates', { query: { limit: '200' } })
  const found = listed.ok
    ? listed.body.data.find(({ id, kind }) => id === wanted && kind === 'rule')
    : undefined
  if (found === undefined || !('verdict' in found.body)) return null
  return {
    id: found.id,
    body: { description: found.description, ...found.body, status: 'active' } as RuleBody,
  }
}

const CheckButton = () => (
  <button name="action" value="check">
    See what it would change
  </button>
)

/** `POST /console/rules/new` */
export async function createRule(visit: PersonsVisit, form: Form): Promise<Shown> {
  const template = await templateOf(visit, form.get('template'))
  // Its parts that the form does not show would be lost.
  if (template === null && form.has('template'))
    return newRulePage(visit, { form, problem: { ...nothingDone, message: 'the template is not there any more: start without it' } }) // prettier-ignore
  const unsaid = withoutValue(form)
  if (unsaid !== null) return newRulePage(visit, { form, problem: unsaid })
  const body = template === null ? newRule(form) : changedRule(form, template.body)
  if (form.get('action') === 'check') {
    const checked = await checkDraft(visit, body, null)
    return newRulePage(visit, { form, problem: checked.ok ? null : checked }, checked)
  }
  const made = await visit.api.call('POST /organizations/{id}/rules', {
    params: { id: organizationId(visit) },
    body,
    ...onceOf(form),
  })
  if (!made.ok) return newRulePage(visit, { form, problem: made })
  const { id } = made.body as { readonly id?: string }
  return { redirect: waitsFor(made.body) ?? `${rulesPath}/${id ?? ''}?done=create` }
}

const results: Readonly<Record<string, string>> = {
  create: 'The rule is saved.',
  save: 'The rule is saved.',
  'save-text': 'The text is saved.',
  restore: 'The earlier version is back.',
  release: released,
}

/** What an active rule does. */
const effects: Readonly<Record<RuleView['verdict'], string>> = {
  allow: 'It stops no call: a stricter rule that matches decides.',
  require_approval: 'From the next call on, a call that it matches waits for approval.',
  deny: 'From the next call on, a call that it matches is denied.',
}

function effectOf({ status, verdict }: RuleView, areApprovalsOff: boolean): string {
  if (status === 'shadow') return 'It is in shadow: it only reports, and decides no call.'
  if (status === 'inactive') return 'It is inactive, and decides no call.'
  return verdict === 'require_approval' && areApprovalsOff
    ? 'Approvals are off: from the next call on, a call that it matches is denied.'
    : effects[verdict]
}

/** After a form of this page: what was done, and what the rule does now. */
async function toldOf(visit: PersonsVisit, rule: RuleView | null) {
  const result = results[visit.query.get('done') ?? '']
  if (result === undefined || rule === null) return null
  const settings = await visit.api.call('GET /organizations/{id}/governance', {
    params: { id: organizationId(visit) },
  })
  return (
    <p class="note" role="status">
      {`${result} ${effectOf(rule, settings.ok && !settings.body.approvals_enabled)} `}
      <a href={tryPath}>Try a call</a>
    </p>
  )
}

/** `GET /console/rules/:id`. Of a deleted rule, the versions are left. */
export async function rulePage(
  visit: PersonsVisit,
  given: Filled = empty,
  checked: Checked | null = null,
): Promise<Shown> {
  const filled = labelled(given, ruleLabels, ruleAliases)
  const [id, rule] = [organizationId(visit), visit.params['id'] ?? '']
  const [found, versions, shown, sizes, changes] = await Promise.all([
    visit.api.call('GET /organizations/{id}/rules/{rule}', { params: { id, rule } }),
    visit.api.call('GET /organizations/{id}/rules/{rule}/versions', {
      params: { id, rule },
      query: versionsQuery(visit),
    }),
    versionOf(visit, { id, rule }),
    groupSizes(visit),
    waitingChanges(visit),
  ])
  if (!versions.ok) return problemPage(versions, visit.place)
  if (!found.ok && versions.body.data[0]?.change !== 'deleted') return problemPage(found, visit.place)
  const saved = found.ok ? found.body : null
  const isChanged = mayChange(visit) && (saved?.managed_by ?? null) === null
  const offered = isChanged ? await offeredIn(visit, id) : null
  return {
    status: filled.problem?.status ?? 200,
    title: saved?.name ?? 'A deleted rule',
    main: (
      <article class="page medium">
        {saved === null ? <Deleted /> : <Head rule={saved} lacking={lackingGroups(saved, sizes)} />}
        <ManagedNote
          what="The rule"
          managed={saved?.managed_by ?? null}
          visit={visit}
          action={mayChange(visit) ? `${rulesPath}/${rule}` : null}
        />
        <WaitingNote changes={changes.get(rule)} now={visit.now} />
        <Refused filled={filled} />
        {await toldOf(visit, saved)}
        {shown}
        {saved === null ? null : offered !== null ? (
          <ChangeRule
            visit={visit}
            path={`${rulesPath}/${rule}`}
            rule={saved}
            filled={filled}
            deletion="A deleted rule decides nothing. If that is less strict, the deletion may wait for a second person."
            more={<CheckButton />}
            isChecked
          >
            {(given) => (
              <>
                <RuleFields rule={saved} offered={offered} filled={given} />
                <RuleCheck checked={checked} now={visit.now} />
              </>
            )}
          </ChangeRule>
        ) : (
          <section class="card" aria-labelledby="rule">
            <h2 id="rule">The rule</h2>
            <RuleFacts rule={saved} />
            <RuleText text={textOf(visit, saved)} />
            {mayChange(visit) ? null : <p class="quiet">An admin or owner changes it.</p>}
          </section>
        )}
        <Versions
          visit={visit}
          path={`${rulesPath}/${rule}`}
          versions={versions.body}
          mayRestore={isChanged}
        />
      </article>
    ),
  }
}

function Head({ rule, lacking }: { rule: RuleView; lacking: readonly string[] }) {
  const [approvers, editable] = [approversOf(rule), editableOf(rule)]
  const named = seatsOf(rule).some((seat) => [seat, ...(seat.also ?? [])].some((who) => 'group' in who))
  return (
    <header class="headline">
      <Crumbs />
      <p class="badges">
        <RuleVerdict verdict={rule.verdict} />
        <RuleStatus status={rule.status} />
      </p>
      <h1>
        <Words text={rule.name} most={200} />
      </h1>
      <p>
        <Message text={`It matches a call if ${matchesOf(rule)}`} />
      </p>
      {approvers === null ? null : (
        <p>
          Who approves: <Message text={approvers} />
          {named ? (
            <>
              {' '}
              <a href={groupsPath}>See the groups</a>
            </>
          ) : null}
        </p>
      )}
      {editable === null ? null : (
        <p>
          Approvers may edit <Message text={editable} />
        </p>
      )}
      {lacking.length === 0 ? null : (
        <p>
          <NobodyCan />{' '}
          <Message text={`too few people are in ${list(lacking.map(quote), 'and')}: an owner adds members`} />
        </p>
      )}
    </header>
  )
}

const Deleted = () => (
  <header class="headline">
    <Crumbs />
    <h1>A deleted rule</h1>
    <p>The rule is deleted, and decides nothing any more. An admin or owner can restore a version below.</p>
  </header>
)

/** The version that the address asks for, in words. */
async function versionOf({ api, query }: PersonsVisit, params: { id: string; rule: string }) {
  const version = query.get('version')
  if (version === null) return null
  const read = await api.call('GET /organizations/{id}/rules/{rule}/versions/{version}', {
    params: { ...params, version },
  })
  const body = read.ok && read.body.body !== null && 'verdict' in read.body.body ? read.body.body : null
  return <OneVersion read={read} shown={body === null ? null : <RuleFacts rule={body} />} />
}

/** `POST /console/rules/:id` */
export async function changeRule(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const unsaid = action === 'check' || action === 'save' ? withoutValue(form) : null
  if (unsaid !== null) return rulePage(visit, { form, problem: unsaid })
  if (action === 'check') {
    const checked = await checkChange(visit, form)
    return rulePage(visit, { form, problem: checked.ok ? null : checked }, checked)
  }
  const done = await act(visit, form, action)
  if (!done.ok) return rulePage(visit, { form: action.startsWith('save') ? form : null, problem: done })
  return { redirect: waitsFor(done.body) ?? `${rulesPath}/${visit.params['id'] ?? ''}?done=${action}` }
}

async function checkChange(visit: PersonsVisit, form: Form): Promise<Checked> {
  const rule = visit.params['id'] ?? ''
  const present = await visit.api.call('GET /organizations/{id}/rules/{rule}', {
    params: { id: organizationId(visit), rule },
  })
  return present.ok ? checkDraft(visit, changedRule(form, present.body), rule) : present
}

async function act(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const { api } = visit
  const params = { id: organizationId(visit), rule: visit.params['id'] ?? '' }
  switch (action) {
    case 'save':
    case 'save-text': {
      const present = await api.call('GET /organizations/{id}/rules/{rule}', { params })
      if (!present.ok) return present
      const refused = changedSince(form, present.body.updated_at)
      if (refused !== null) return refused
      if (action === 'save')
        return api.call('PATCH /organizations/{id}/rules/{rule}', {
          params,
          body: changesOf(form, present.body),
        })
      const read = ruleInText(visit, form)
      return read.ok
        ? api.call('PUT /organizations/{id}/rules/{rule}', { params, body: read.body as RuleBody })
        : read
    }
    case 'delete':
      return api.call('DELETE /organizations/{id}/rules/{rule}', { params })
    case 'restore':
      return api.call('POST /organizations/{id}/rules/{rule}/versions/{version}/restore', {
        params: { ...params, version: form.get('version') ?? '' },
        ...onceOf(form),
      })
    case 'release': {
      const present = await api.call('GET /organizations/{id}/rules/{rule}', { params })
      return present.ok ? release(visit, { kind: 'rule', name: present.body.name }, form) : present
    }
  }
  return nothingDone
}
