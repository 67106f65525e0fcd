import { limitChanges, type LimitChanges } from '../contract/plan-limits.ts'
import { setPlan } from '../governance/limits/quota.ts'
import { headlineWithField, readAs } from '../policy/issues.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run set-plan -- ORGANIZATION PLAN [LIMIT=NUMBER ...]` moves an organization to the plan `free`, `pro` or
 * `enterprise`. `LIMIT=NUMBER` overrides a limit of the plan, and `LIMIT=plan` removes the override. It applies at once
 * in every process.
 */

const [organizationId, plan, ...assignments] = process.argv.slice(2)
const overrides = overridesOf(assignments)
if (organizationId === undefined || plan === undefined || typeof overrides === 'string') {
  if (typeof overrides === 'string') process.stderr.write(`error: ${overrides}\n`)
  exitWithUsage('npm run set-plan -- ORGANIZATION free|pro|enterprise [LIMIT=NUMBER|LIMIT=plan ...]')
}
await runOperatorProgram((context) => setPlan(context.combiner, organizationId, plan, overrides))

function overridesOf(texts: readonly string[]): LimitChanges | string {
  const named: [string, number | null][] = []
  for (const text of texts) {
    const [, name, value] = /^(\w+)=(\d{1,15}|plan)$/.exec(text) ?? []
    if (name === undefined || value === undefined)
      return `\`${text}\` is not an override: write e.g. \`memory_mb=1024\`, or \`memory_mb=plan\` for the plan's limit`
    if (named.some(([other]) => other === name))
      return `\`${name}\` is given more than once: name each limit once`
    named.push([name, value === 'plan' ? null : Number(value)])
  }
  const read = readAs(limitChanges, Object.fromEntries(named))
  return read.ok ? read.value : headlineWithField('an override is wrong', read.issues)
}
