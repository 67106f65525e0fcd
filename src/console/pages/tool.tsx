import { connectPath, rulesPath, settingsPath, toolPath, toolsPath, tryPath } from '../../contract/pages.ts'
import { restrictingNames } from '../../policy/agent-tools.ts'
import { matchesGlob } from '../../policy/glob.ts'
import { isAgentsTool } from '../../policy/tool-names.ts'
import type { LimitName } from '../../policy/tool-limits.ts'
import { waitingChanges, WaitingNote } from '../parts/change.tsx'
import { changedSince, empty, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { labelsOf, readFields } from '../parts/inputs.tsx'
import { Empty } from '../parts/list.tsx'
import { RuleLinks } from '../parts/rule.tsx'
import {
  atFields,
  Policies,
  policyLabels,
  policySeen,
  PolicyForm,
  restrictionsIn,
  serviceWords,
  type Override,
  type Policy,
} from '../parts/tool-policy.tsx'
import { Badge, EffectOf, Host } from '../parts/state.tsx'
import { Sum } from '../parts/tool-sum.tsx'
import { at, declaredOf, Tried, TryForm, type Tool, type Trial } from '../parts/tool-try.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { capital, Message, Words } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  waitsFor,
  type Form,
  type PersonsVisit,
  type Problem,
  type Result,
  type RuleView,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/*
 * `/console/tools/:name`: what a tool does, who may call it with what, and what would be decided about a call. Admins
 * see the policies, and owners change them. It is also the page of a tool of agents, which the catalogue does not have.
 */

const nameOf = (visit: PersonsVisit): string => visit.params['name'] ?? ''
const refusedTry = 'Nothing was asked. Change this:'

/** `GET /console/tools/:name` */
export async function toolPage(
  visit: PersonsVisit,
  given: Filled = empty,
  trial: Trial | null = null,
): Promise<Shown> {
  const name = nameOf(visit)
  const found = await readTool(visit)
  if (!found.ok) return problemPage(found, visit.place)
  const tool = found.body
  const declared = tool === null ? {} : declaredOf(tool)
  const labels = { ...policyLabels, ...labelsOf(declared, at), labels: 'Labels of the values' }
  const filled = labelled(given, labels, {}, given.form?.get('action') === 'try' ? refusedTry : undefined)
  const [rules, governed, changes] = await Promise.all([
    rulesOf(visit, name),
    governedOf(visit, name),
    isAtLeast(visit, 'admin') ? waitingChanges(visit) : new Map<string, never>(),
  ])
  return {
    status: filled.problem?.status ?? 200,
    title: name,
    main: (
      <article class="page">
        <header class="headline">
          <p>
            <a href={toolsPath}>All tools</a>
          </p>
          <h1>
            <Words text={name} />
          </h1>
          <p>{tool === null ? 'A tool of agents.' : <Message text={tool.description} />}</p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <WaitingNote changes={changes.get(name)} now={visit.now} />
        {trial === null ? null : <Tried trial={trial} />}
        {tool === null ? null : <About tool={tool} />}
        {governed === null ? (
          <p class="note">Admins see who may call it with what. Ask one, or an owner.</p>
        ) : (
          <Governing tool={tool} governed={governed} visit={visit} filled={filled} />
        )}
        {rules === null ? null : <Rules rules={rules} />}
        {tool === null ? (
          <p>
            <a href={tryPath}>Try a call</a> of it by the rules.
          </p>
        ) : isAtLeast(visit, 'member') ? (
          <TryForm tool={tool} visit={visit} filled={filled} />
        ) : null}
      </article>
    ),
  }
}

const results = {
  save: 'The policy is saved. It holds from the next decision on.',
  'remove-policy': 'The policy is removed.',
  'remove-override': 'The override is removed.',
}

/** null for a tool of agents, which only admins look up by name. */
async function readTool(visit: PersonsVisit): Promise<Result<Tool | null>> {
  const found = await visit.api.call('GET /tools/{name}', {
    params: { name: nameOf(visit) },
    query: { organization_id: organizationId(visit) },
  })
  if (found.ok || found.status !== 404 || !isAtLeast(visit, 'admin')) return found
  return isAgentsTool(nameOf(visit)) ? { ok: true, body: null } : found
}

const About = ({ tool }: { tool: Tool }) => (
  <section class="card" aria-labelledby="about">
    <h2 id="about">About the tool</h2>
    <Facts
      facts={[
        ['Service', serviceWords(tool)],
        ['Effect', <EffectOf tool={tool} />],
        ['Labels', tool.output_labels.length === 0 ? null : <Words text={tool.output_labels.join(', ')} />],
        ['Risk', capital(tool.risk)],
        [
          'State',
          tool.available ? (
            <Badge tone="good" word={tool.needs_connection ? 'Connected' : 'Works'} />
          ) : (
            <>
              <Badge tone="warn" word="Does not work" /> <Message text={tool.unavailable_because ?? ''} />{' '}
              {tool.needs_connection && tool.service !== null ? (
                <a href={`${connectPath}?service=${tool.service}`}>Connect it</a>
              ) : null}
            </>
          ),
        ],
        ['Goes to', tool.destination === null ? null : <Host host={tool.destination} />],
      ]}
    />
  </section>
)

interface Governed {
  readonly policies: readonly Policy[]
  readonly overrides: readonly Override[]
  readonly fallback: 'allow' | 'deny'
  readonly groups: readonly string[]
}

/** null for people who may not see policies. Policies on a shell also hold for other tools that run commands. */
async function governedOf(visit: PersonsVisit, name: string): Promise<Governed | null> {
  if (!isAtLeast(visit, 'admin')) return null
  const params = { id: organizationId(visit) }
  const queries = restrictingNames(name).map((each) => ({ limit: '200', tool_name: each }))
  const [policies, overrides, settings, groups] = await Promise.all([
    Promise.all(
      queries.map((query) => visit.api.call('GET /organizations/{id}/tool-policies', { params, query })),
    ),
    Promise.all(
      queries.map((query) =>
        visit.api.call('GET /organizations/{id}/role-policy-overrides', { params, query }),
      ),
    ),
    visit.api.call('GET /organizations/{id}/governance', { params }),
    visit.api.call('GET /organizations/{id}/groups', { params, query: { limit: '200' } }),
  ])
  if (!settings.ok) return null
  return {
    policies: policies
      .flatMap((each) => (each.ok ? each.body.data : []))
      .toSorted((a, b) => ((a.role ?? '') < (b.role ?? '') ? -1 : 1)),
    overrides: overrides.flatMap((each) => (each.ok ? each.body.data : [])),
    fallback: settings.body.default_tool_access,
    groups: groups.ok ? groups.body.data.map((each) => each.name).toSorted() : [],
  }
}

function Governing(props: { tool: Tool | null; governed: Governed; visit: PersonsVisit; filled: Filled }) {
  const { tool, governed, visit, filled } = props
  const name = nameOf(visit)
  const mayChange = isAtLeast(visit, 'owner')
  const { policies, overrides, groups, fallback } = governed
  const own = policies.filter((each) => each.tool_name === name)
  return (
    <>
      <section class="stack" aria-labelledby="sum">
        <h2 id="sum">Who may call it</h2>
        {/* What a call of an agent's tool does depends on the call. */}
        <Sum tool={name} sideEffect={tool?.side_effect_now ?? 'read'} saved={governed} />
        <p class="quiet small">
          Where there are two lists, a value must be in both. After this, the rules decide. Tools without a
          policy are{' '}
          <a href={`${settingsPath}#setting-default_tool_access`}>
            {fallback === 'allow' ? 'allowed' : 'denied'}
          </a>
          . In a workflow, the role of who wrote the step counts too.
        </p>
      </section>
      <section class="stack" aria-labelledby="policies">
        <h2 id="policies">Its policies</h2>
        {own.length + overrides.length === 0 ? (
          <Empty title="No policy names this tool.">
            {mayChange ? 'Limit, block or allow it below.' : 'An owner limits, blocks or allows it.'}
          </Empty>
        ) : (
          <Policies
            tool={name}
            policies={own}
            overrides={overrides.filter((each) => each.tool_name === name)}
            visit={visit}
            mayChange={mayChange}
          />
        )}
      </section>
      {mayChange ? (
        <PolicyForm
          tool={name}
          limits={(tool?.constraints ?? ['read_only']) as LimitName[]}
          policies={own}
          groups={groups}
          visit={visit}
          filled={filled}
        />
      ) : (
        <p class="quiet">An owner changes policies.</p>
      )}
    </>
  )
}

/** Those of the newest rules that name the tool; null for people who may not see rules. */
async function rulesOf(visit: PersonsVisit, name: string): Promise<readonly RuleView[] | null> {
  const listed = await visit.api.call('GET /organizations/{id}/rules', {
    params: { id: organizationId(visit) },
    query: { limit: '200' },
  })
  return listed.ok
    ? listed.body.data.filter(({ tools = [] }) => tools.some((glob) => matchesGlob(glob, name)))
    : null
}

const Rules = ({ rules }: { rules: readonly RuleView[] }) => (
  <section class="stack" aria-labelledby="rules">
    <h2 id="rules">Rules that name it</h2>
    {rules.length === 0 ? (
      <p>
        No rule names it. <a href={rulesPath}>Rules</a> about labels, or about what a call does, may match it
        too.
      </p>
    ) : (
      <RuleLinks rules={rules} />
    )}
  </section>
)

/** `POST /console/tools/:name` */
export async function changeTool(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  if (action === 'try') return tryCall(visit, form)
  const done = action === 'save' ? await save(visit, form) : await remove(visit, form, action)
  if (!done.ok) return toolPage(visit, { form, problem: atFields(done, restrictionsIn(form)) })
  return { redirect: waitsFor(done.body) ?? `${toolPath(nameOf(visit))}?done=${action}` }
}

async function tryCall(visit: PersonsVisit, form: Form): Promise<Shown> {
  const found = await readTool(visit)
  if (!found.ok) return problemPage(found, visit.place)
  if (found.body === null) return toolPage(visit, { form, problem: nothingDone })
  const read = readFields(declaredOf(found.body), form, { at, refused: refusedTry })
  if ('problem' in read) return toolPage(visit, { form, problem: read.problem })
  const labels = (form.get('labels') ?? '').split(/[\s,;]+/).filter((each) => each !== '')
  const tried = await visit.api.call('POST /tools/{name}/try', {
    params: { name: nameOf(visit) },
    body: { organization_id: organizationId(visit), params: read.values, labels },
  })
  return tried.ok
    ? toolPage(visit, { form, problem: null }, tried.body)
    : toolPage(visit, { form, problem: tried })
}

const unsaid: Problem & { readonly ok: false } = {
  ok: false,
  status: 422,
  code: 'validation_error',
  message: 'set at least one limit below, or choose to allow or to block it',
  details: [{ path: 'does', message: 'set at least one limit below, or choose to allow or to block it' }],
}

async function save(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const params = { id: organizationId(visit) }
  const [name, of, does] = [nameOf(visit), form.get('of') ?? '', form.get('does')]
  const allowed = does === 'block' ? false : does === 'allow' ? true : null
  // A block keeps the limits that a policy has: they hold again when the tool is allowed.
  const restrictions = does === 'block' ? {} : restrictionsIn(form)
  if (allowed === null && Object.keys(restrictions).length === 0) return unsaid
  const role = of === '' ? {} : { role: of }
  const listed = await visit.api.call('GET /organizations/{id}/tool-policies', {
    params,
    query: { limit: '200', tool_name: name },
  })
  if (!listed.ok) return listed
  const present = listed.body.data.find((each) => (each.role ?? '') === of)
  const refused = present === undefined ? null : changedSince(form, policySeen(of, present))
  if (refused !== null) return refused
  return present !== undefined
    ? visit.api.call('PATCH /organizations/{id}/tool-policies/{tool}', {
        params: { ...params, tool: name },
        body: { ...role, allowed, ...(does === 'block' ? {} : { restrictions }) },
      })
    : visit.api.call('POST /organizations/{id}/tool-policies', {
        params,
        body: { ...role, tool_name: name, allowed, restrictions },
        ...onceOf(form),
      })
}

async function remove(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const params = { id: organizationId(visit), tool: nameOf(visit) }
  const role = form.get('of') ?? ''
  if (action === 'remove-policy')
    return visit.api.call('DELETE /organizations/{id}/tool-policies/{tool}', {
      params,
      query: role === '' ? {} : { role },
    })
  if (action === 'remove-override')
    return visit.api.call('DELETE /organizations/{id}/role-policy-overrides/{tool}', {
      params,
      query: { role },
    })
  return nothingDone
}
