import type { AnswerOf } from '../../api/routes/index.ts'
import { settingsPath, toolPath, toolsPath } from '../../contract/pages.ts'
import { Table } from '../parts/list.tsx'
import { Badge, EffectOf } from '../parts/state.tsx'
import { serviceWords, type Policy } from '../parts/tool-policy.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/tools`: every tool of workflows, and tools of agents that a policy names. */

type Tool = AnswerOf<'GET /tools'>['data'][number]

interface Known {
  readonly policies: readonly Policy[]
  /** There are more, so a tool without a policy here may have one. */
  readonly isCut: boolean
}

/** `GET /console/tools`. With `?tool=`, leads to the page of that tool. */
export async function toolsPage(visit: PersonsVisit): Promise<Shown> {
  const wanted = (visit.query.get('tool') ?? '').trim()
  if (wanted !== '') return { redirect: toolPath(wanted.slice(0, 200)) }
  const isAdmin = isAtLeast(visit, 'admin')
  const [listed, policies] = await Promise.all([
    // The catalogue has fewer.
    visit.api.call('GET /tools', { query: { limit: '200', organization_id: organizationId(visit) } }),
    isAdmin
      ? visit.api.call('GET /organizations/{id}/tool-policies', {
          params: { id: organizationId(visit) },
          query: { limit: '200' },
        })
      : null,
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const tools = listed.body.data
  const known: Known | null =
    policies?.ok === true ? { policies: policies.body.data, isCut: policies.body.next_cursor !== null } : null
  return {
    status: 200,
    title: 'Policies and tools',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Policies and tools</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            A policy limits or blocks a tool for everybody, a role or a group. What it lets through still
            meets the rules.{' '}
            {isAdmin ? (
              <>
                What holds for tools without a policy is a{' '}
                <a href={`${settingsPath}#setting-default_tool_access`}>setting</a>.
              </>
            ) : (
              'Admins see the policies, and owners change them.'
            )}
          </p>
        </header>
        <Table
          label="Tools of workflows"
          head={[
            'Tool',
            'Service',
            'What it does',
            'Labels',
            'State',
            ...(known === null ? [] : ['Policies']),
          ]}
          rows={tools.map((tool) => rowOf(tool, known))}
        />
        {known === null ? null : <AgentsTools tools={tools} known={known} />}
      </article>
    ),
  }
}

const rowOf = (tool: Tool, known: Known | null) => [
  <a href={toolPath(tool.name)}>
    <Words text={tool.name} />
  </a>,
  serviceWords(tool),
  <EffectOf tool={tool} />,
  tool.output_labels.length === 0 ? (
    <span class="quiet">–</span>
  ) : (
    <Words text={tool.output_labels.join(', ')} />
  ),
  tool.available ? (
    <Badge tone="good" word={tool.needs_connection ? 'Connected' : 'Works'} />
  ) : (
    <Badge tone="off" word={tool.connected ? 'Does not work' : 'Not connected'} />
  ),
  ...(known === null ? [] : [<PoliciesOf tool={tool.name} known={known} />]),
]

/** The organization's policy in a word, and how many others there are. */
function PoliciesOf({ tool, known }: { tool: string; known: Known }) {
  const own = known.policies.filter((each) => each.tool_name === tool)
  const whole = own.find(({ role }) => role === null)
  const others = own.length - (whole === undefined ? 0 : 1)
  if (own.length === 0) return <span class="quiet">{known.isCut ? 'see its page' : 'none'}</span>
  return (
    <span class="badges">
      {whole === undefined ? null : whole.allowed === false ? (
        <Badge tone="bad" word="Blocked" />
      ) : Object.keys(whole.restrictions).length > 0 ? (
        <Badge tone="warn" word="Limited" />
      ) : (
        <Badge tone="good" word="Allowed" />
      )}
      {others === 0 ? null : (
        <a href={`${toolPath(tool)}#policies`}>
          {others === 1 ? '1 role or group' : `${others} roles or groups`}
        </a>
      )}
    </span>
  )
}

function AgentsTools({ tools, known }: { tools: readonly Tool[]; known: Known }) {
  const catalogue = new Set(tools.map(({ name }) => name))
  const names = [...new Set(known.policies.map((each) => each.tool_name))]
    .filter((name) => !catalogue.has(name))
    .toSorted()
  return (
    <section class="stack" aria-labelledby="agents">
      <h2 id="agents">Tools of agents</h2>
      <p>Agents bring their own tools, such as Bash, or mcp__board__delete_card of a server.</p>
      {names.length === 0 ? null : (
        <Table
          label="Tools of agents with a policy"
          head={['Tool', 'Policies']}
          rows={names.map((name) => [
            <a href={toolPath(name)}>
              <Words text={name} />
            </a>,
            <PoliciesOf tool={name} known={known} />,
          ])}
        />
      )}
      <form method="get" action={toolsPath} class="card fill">
        <div class="stack">
          <label for="tool">Name of a tool</label>
          <input id="tool" name="tool" maxlength={200} autocomplete="off" spellcheck={false} required />
        </div>
        <button>Show its policies</button>
      </form>
    </section>
  )
}
