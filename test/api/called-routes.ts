import { accessOf, splitKey } from '../../src/api/access.ts'
import type { Route } from '../../src/api/route.ts'
import { routes } from '../../src/api/routes/index.ts'
import type { World } from './access-matrix/world.ts'
import type { Resources } from './resources.ts'

type Key = (typeof routes)[number]['key']

/**
 * Routes that can answer with an error. An agent's question gets a decision even if its body is wrong
 * (test/api/agents).
 */
export const erring = routes.filter((route) => route.ask === undefined)
export const withBody = erring.filter((route) => route.body !== undefined && route.receive === undefined)
export const routeOf = (key: Key) => routes.find((each) => each.key === key) as Route
export const guarded = routes.filter((route) => !accessOf(route.key).public)

/** The names of objects inside the subjects of paths, by path parameter. */
export type InnerNames = Readonly<Record<string, string>>

/** Creates one of each object that a path can name inside its subject. */
export async function innerNamesOf(world: World): Promise<InnerNames> {
  const tool = await world.toolPolicy()
  await world.make(`/organizations/${world.organizationId}/role-policy-overrides`, {
    tool_name: tool,
    role: 'auditor',
    allowed: false,
  })
  return {
    ...(await world.delivery()),
    user: await world.anotherMember(),
    invitation: await world.invitation(),
    key: await world.memoryKey(),
    tool,
    name: 'web_search',
    step: 's',
    // The held call that `/authorize/approvals/{id}` names.
    held: await world.heldCall(),
  }
}

/**
 * Returns a function that makes the path of a route with valid ids. An inner object that `inner` does not name is called
 * `1`. `replace` replaces the last id.
 */
export function pathsOf(ours: Resources, inner: InnerNames = {}) {
  return function pathOf(key: Key, replace?: string): string {
    const entry = accessOf(key)
    const subject = entry.public ? 'nothing' : entry.subject
    const ids: Record<string, string> = {
      workflow: ours.ids.workflow,
      run: ours.ids.run,
      approval: ours.ids.approval,
      api_key: ours.ids.key,
      agent_session: ours.ids.session,
      connection: ours.ids.connection,
      file: ours.ids.file,
      ...(inner['held'] === undefined ? {} : { nothing: inner['held'] }),
    }
    const names = [...splitKey(key).path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
    return names.reduce((path, name, index) => {
      const rule = path.includes('/label-rules/') ? ours.ids.labelRule : ours.ids.rule
      const object = name === 'rule' ? rule : (inner[name] ?? '1')
      const own = name === 'id' ? (ids[subject] ?? ours.organizationId) : object
      return path.replace(`{${name}}`, replace !== undefined && index === names.length - 1 ? replace : own)
    }, splitKey(key).path)
  }
}
