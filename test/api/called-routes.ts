import { accessOf, splitKey } from '../../src/api/access.ts'
import type { Route } from '../../src/api/route.ts'
import { routes } from '../../src/api/routes/index.ts'
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

/** Returns a function that makes the path of a route with valid ids. `replace` replaces the last id. */
export function pathsOf(ours: Resources) {
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
    }
    const names = [...splitKey(key).path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
    return names.reduce((path, name, index) => {
      const rule = subject === 'label_rule' ? ours.ids.labelRule : ours.ids.rule
      const own = name === 'id' ? (ids[subject] ?? ours.organizationId) : name === 'rule' ? rule : '1'
      return path.replace(`{${name}}`, replace !== undefined && index === names.length - 1 ? replace : own)
    }, splitKey(key).path)
  }
}
