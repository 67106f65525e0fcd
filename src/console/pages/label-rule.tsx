import { labelRulePath, newLabelRulePath } from '../../contract/pages.ts'
import { withoutValue } from '../parts/conditions.tsx'
import { waitingChanges, WaitingNote } from '../parts/change.tsx'
import { changedSince, empty, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import {
  LabelRuleFields,
  labelRuleIn,
  labelRuleLabels,
  labelSentence,
  type LabelRuleBody,
  type LabelRuleView,
} from '../parts/label-rule.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { ManagedNote } from '../parts/managed.tsx'
import { offeredIn } from '../parts/rule-form.tsx'
import { ChangeRule, ruleInText, RuleText, textOf } from '../parts/rule-text.tsx'
import { OneVersion, Versions, versionsQuery } from '../parts/rule-versions.tsx'
import { RuleStatus } from '../parts/rule.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { Message, Words } from '../parts/words.tsx'
import { organizationId, waitsFor, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { Crumbs, notAdmin } from './rule.tsx'
import { mayChange } from './rules.tsx'

/* `/console/rules/labels/new` and `/console/rules/labels/:id`: one rule that labels what tools read. */

/** `GET /console/rules/labels/new` */
export async function newLabelRulePage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  if (!mayChange(visit)) return problemPage(notAdmin, visit.place)
  const filled = labelled(given, labelRuleLabels)
  const [offered, template] = await Promise.all([
    offeredIn(visit, organizationId(visit)),
    templateOf(visit, visit.query.get('template')),
  ])
  return {
    status: filled.problem?.status ?? 200,
    title: 'Make a rule that labels',
    main: (
      <article class="page medium">
        <header class="headline">
          <Crumbs />
          <h1>Make a rule that labels</h1>
          <p>
            It says what data is: “what is read from this folder is confidential”. Rules then decide what may
            be done with such data.
          </p>
        </header>
        <Refused filled={filled} />
        <PostForm action={newLabelRulePath} token={visit.token} class="card fill">
          <OnceField />
          <LabelRuleFields rule={template} offered={offered} filled={filled} />
          <div class="buttons">
            <button class="primary">Make the rule</button>
          </div>
        </PostForm>
      </article>
    ),
  }
}

async function templateOf({ api }: PersonsVisit, wanted: string | null): Promise<LabelRuleBody | null> {
  if (wanted === null) return null
  const listed = await api.call('GET /rule-templates', { query: { limit: '200' } })
  const found = listed.ok ? listed.body.data.find(({ id }) => id === wanted) : undefined
  return found === undefined || !('add_labels' in found.body) ? null : { ...found.body, status: 'active' }
}

/** `POST /console/rules/labels/new` */
export async function createLabelRule(visit: PersonsVisit, form: Form): Promise<Shown> {
  const unsaid = withoutValue(form)
  if (unsaid !== null) return newLabelRulePage(visit, { form, problem: unsaid })
  const made = await visit.api.call('POST /organizations/{id}/label-rules', {
    params: { id: organizationId(visit) },
    body: labelRuleIn(form, null),
    ...onceOf(form),
  })
  if (!made.ok) return newLabelRulePage(visit, { form, problem: made })
  const { id = '' } = made.body as { readonly id?: string }
  return { redirect: waitsFor(made.body) ?? `${labelRulePath(id)}?done=create` }
}

const results = {
  create: 'The rule is saved. It labels what is read from now on.',
  save: 'The rule is saved.',
  'save-text': 'The text is saved.',
  restore: 'The earlier version is back.',
  delete: 'The rule is deleted.',
}

const paramsOf = (visit: PersonsVisit) => ({ id: organizationId(visit), rule: visit.params['id'] ?? '' })

/** `GET /console/rules/labels/:id`. Of a deleted rule, the versions are left. */
export async function labelRulePage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labelRuleLabels)
  const params = paramsOf(visit)
  const path = labelRulePath(params.rule)
  const [found, versions, changes] = await Promise.all([
    visit.api.call('GET /organizations/{id}/label-rules/{rule}', { params }),
    visit.api.call('GET /organizations/{id}/label-rules/{rule}/versions', {
      params,
      query: versionsQuery(visit),
    }),
    waitingChanges(visit),
  ])
  if (!versions.ok) return problemPage(versions, visit.place)
  if (!found.ok && versions.body.data[0]?.change !== 'deleted') return problemPage(found, visit.place)
  const saved = found.ok ? found.body : null
  const isChanged = mayChange(visit) && (saved?.managed_by ?? null) === null
  const offered = isChanged ? await offeredIn(visit, params.id) : null
  return {
    status: filled.problem?.status ?? 200,
    title: saved?.name ?? 'A deleted rule',
    main: (
      <article class="page medium">
        <Head rule={saved} />
        <ManagedNote what="The rule" managed={saved?.managed_by ?? null} visit={visit} action={null} />
        <WaitingNote changes={changes.get(params.rule)} now={visit.now} />
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        {await versionOf(visit)}
        {saved === null ? null : offered !== null ? (
          <ChangeRule
            visit={visit}
            path={path}
            rule={saved}
            filled={filled}
            isChecked={false}
            deletion="What is read from then on gets none of its labels, so rules that need them hold nothing. The deletion may wait for a second person."
          >
            {(given) => <LabelRuleFields rule={saved} offered={offered} filled={given} />}
          </ChangeRule>
        ) : (
          <section class="card stack" aria-label="The rule">
            <RuleText text={textOf(visit, saved)} />
            {mayChange(visit) ? null : <p class="quiet">An admin or owner changes it.</p>}
          </section>
        )}
        <Versions visit={visit} path={path} versions={versions.body} mayRestore={isChanged} />
      </article>
    ),
  }
}

const Head = ({ rule }: { rule: LabelRuleView | null }) =>
  rule === null ? (
    <header class="headline">
      <Crumbs />
      <h1>A deleted rule</h1>
      <p>The rule is deleted, and labels nothing any more. An admin or owner can restore a version below.</p>
    </header>
  ) : (
    <header class="headline">
      <Crumbs />
      <p class="badges">
        <RuleStatus status={rule.status} />
      </p>
      <h1>
        <Words text={rule.name} most={200} />
      </h1>
      <p>
        <Message text={labelSentence(rule)} />
      </p>
    </header>
  )

/** The version that the address asks for. */
async function versionOf(visit: PersonsVisit) {
  const version = visit.query.get('version')
  if (version === null) return null
  const read = await visit.api.call('GET /organizations/{id}/label-rules/{rule}/versions/{version}', {
    params: { ...paramsOf(visit), version },
  })
  const body = read.ok && read.body.body !== null && 'add_labels' in read.body.body ? read.body.body : null
  const shown =
    body === null ? null : (
      <>
        <p>
          <strong>
            <Words text={body.name} most={200} />
          </strong>
          : <Message text={labelSentence(body)} />
        </p>
        <RuleStatus status={body.status} />
      </>
    )
  return <OneVersion read={read} shown={shown} />
}

/** `POST /console/rules/labels/:id` */
export async function changeLabelRule(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const done = await act(visit, form, action)
  if (!done.ok) return labelRulePage(visit, { form: action.startsWith('save') ? form : null, problem: done })
  return { redirect: waitsFor(done.body) ?? `${labelRulePath(paramsOf(visit).rule)}?done=${action}` }
}

async function act(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const { api } = visit
  const params = paramsOf(visit)
  switch (action) {
    case 'save':
    case 'save-text': {
      const present = await api.call('GET /organizations/{id}/label-rules/{rule}', { params })
      if (!present.ok) return present
      const refused = changedSince(form, present.body.updated_at)
      if (refused !== null) return refused
      const unsaid = action === 'save' ? withoutValue(form) : null
      if (unsaid !== null) return unsaid
      const read: Result<object> =
        action === 'save' ? { ok: true, body: labelRuleIn(form, present.body) } : ruleInText(visit, form)
      return read.ok
        ? api.call('PUT /organizations/{id}/label-rules/{rule}', { params, body: read.body as LabelRuleBody })
        : read
    }
    case 'delete':
      return api.call('DELETE /organizations/{id}/label-rules/{rule}', { params })
    case 'restore':
      return api.call('POST /organizations/{id}/label-rules/{rule}/versions/{version}/restore', {
        params: { ...params, version: form.get('version') ?? '' },
        ...onceOf(form),
      })
  }
  return nothingDone
}
