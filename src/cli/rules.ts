import type { Command } from 'commander'
import type { AnswerOf, BodyOf, QueryOf } from '../api/routes/index.ts'
import { apiOf, command, listed, organizationOf, type Shared } from './command.ts'
import { Failure } from './failure.ts'
import { readObjects } from './files.ts'
import { say, toneOf, writeJson, writeLine, writeTable } from './terminal.ts'

export function addRuleCommands(program: Command): void {
  command(program, 'tools', 'list the tools that workflow steps can call').action(listTools)
  const rules = program.command('rules').description('ask the rules, without changing or calling anything')
  command(rules, 'test <tool>', 'what would be decided for a call of a tool')
    .option('-p, --param <name=value>', 'a parameter: text, or JSON; repeat it for others', listed, [])
    .option('-l, --label <label>', 'a label of what goes in; repeat it for others', listed, [])
    .option('--agent', 'as a call of an agent')
    .option('--rules <path>', 'ask the rules of this file or folder in place of the saved ones')
    .action(test)
  command(rules, 'backtest <path>', 'decide recorded calls again by the rules of a file or folder')
    .option('--since <time>', 'only calls that were decided at this time or later')
    .option('--until <time>', 'only calls that were decided before it')
    .action(backtest)
}

async function listTools({ json }: Shared): Promise<void> {
  const api = apiOf()
  const tools: AnswerOf<'GET /tools'>['data'] = []
  for (let query: QueryOf<'GET /tools'> = { limit: '200' }; ;) {
    const { data, next_cursor: cursor } = await api.call('GET /tools', { query })
    tools.push(...data)
    if (cursor === null) break
    query = { ...query, cursor }
  }
  if (json === true) return writeJson(tools)
  writeTable(
    ['TOOL', 'EFFECT', 'CONNECTED', 'WHAT'],
    tools.map((each) => [each.name, each.side_effect, each.connected ? 'yes' : 'no', each.description]),
    'there is no tool',
  )
}

type Drafts = BodyOf<'POST /organizations/{id}/rules/backtest'>['rules']

/** Other kinds in the folder are left out. */
function draftsOf(path: string): Drafts {
  const drafts = readObjects(path)
    .filter(({ object }) => object.kind === 'rule')
    .map(({ object }) => Object.fromEntries(Object.entries(object).filter(([name]) => name !== 'kind')))
  if (drafts.length === 0) throw new Failure(`\`${path}\` has no file with \`kind: rule\``)
  return drafts as unknown as Drafts
}

interface Testing extends Shared {
  readonly param: readonly string[]
  readonly label: string[]
  readonly agent?: true
  readonly rules?: string
}

async function test(tool: string, options: Testing): Promise<void> {
  const params = Object.fromEntries(options.param.map((text) => paramOf(text)))
  const api = apiOf()
  const answer = await api.call('POST /organizations/{id}/rules/test', {
    params: { id: await organizationOf(api) },
    body: {
      call: { tool, params, labels: options.label, ...(options.agent === true ? { source: 'agents' } : {}) },
      ...(options.rules === undefined ? {} : { rules: draftsOf(options.rules) }),
    },
  })
  if (options.json === true) return writeJson(answer)
  writeLine(answer.decision, answer.rule_name ?? '', answer.explanation)
}

/** A value that is no JSON is a text, and every value of a parameter that `isText`. */
export function paramOf(text: string, isText: (name: string) => boolean = () => false): [string, unknown] {
  const [, name = '', value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (name === '') throw new Failure(`\`${text}\` is no parameter: write \`-p name=value\``)
  if (isText(name)) return [name, value]
  try {
    return [name, JSON.parse(value)]
  } catch {
    return [name, value]
  }
}

async function backtest(path: string, options: Shared & { since?: string; until?: string }): Promise<void> {
  const api = apiOf()
  const answer = await api.call('POST /organizations/{id}/rules/backtest', {
    params: { id: await organizationOf(api) },
    body: {
      rules: draftsOf(path),
      ...(options.since === undefined ? {} : { since: options.since }),
      ...(options.until === undefined ? {} : { until: options.until }),
    },
  })
  if (options.json === true) return writeJson(answer)
  writeTable(
    ['TOOL', 'DECIDED', 'WAS', 'WOULD BE', 'BY', 'WHERE'],
    answer.samples.map((each) => [
      each.tool,
      each.decided_at,
      { text: each.from.verdict, style: toneOf(each.from.verdict) },
      { text: each.to.verdict, style: toneOf(each.to.verdict) },
      each.to.rule_name ?? '',
      each.run_id ?? each.session_id ?? '',
    ]),
    'no recorded call would be decided otherwise',
  )
  const left = answer.limit_reached === null ? '' : `; older calls are left out (${answer.limit_reached})`
  say(`${answer.changed} of ${answer.examined} calls would be decided otherwise${left}`, 'bold')
}
