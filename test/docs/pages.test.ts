import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { assumptions, services, titleOf } from '../tools/faults/services.ts'
import { mail } from '../tools/services/mail.ts'
import { statusOf } from '../../src/api/errors.ts'
import { catalog, getTool } from '../../src/tools/index.ts'
import type { ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { idPrefixes } from '../../src/contract/ids.ts'
import { clock, laneKinds } from '../../src/governance/lanes/lanes.ts'
import { sealedColumns } from '../../src/governance/sealing/columns.ts'
import { agentTool } from '../../src/policy/agent-tools.ts'
import { decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { shapes } from '../../src/policy/expressions/functions.ts'
import { compileToolAccess } from '../../src/policy/tool-access.ts'
import { limitNames } from '../../src/policy/tool-limits.ts'
import { type JsonObject, unionLabels } from '../../src/policy/types.ts'
import { readEnvironment } from '../../src/shared/environment.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
/** The words of a cell that are marked as code. */
const words = (cell = ''): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, word = '']) => word)

describe('docs/agents.md', () => {
  /* Those rows of docs/agents.md, "What a call counts as", that only name tools. */

  const page = read('docs/agents.md')
  const rows = [...page.matchAll(/^\| ((?:`\w+` ?)+) *\| (read|write|egress) +\| ([^|]*)\|$/gm)]

  test.each(
    rows.map(([, tools, sideEffect, labels]) => ({ tools: words(tools), sideEffect, labels: words(labels) })),
  )('$tools: $sideEffect', ({ tools, sideEffect, labels }) => {
    for (const name of tools) {
      const tool = agentTool(name)
      expect([name, tool?.sideEffect, tool?.code]).toEqual([name, sideEffect, undefined])
      expect([name, unionLabels(tool?.outputLabels ?? [])]).toEqual([name, labels])
    }
  })

  test('all six of them', () => {
    expect(rows).toHaveLength(6)
  })
})

describe('docs/reference/queue.md', () => {
  /* Its tables, compared with the list of lanes in the code. */

  const cells = [...read('docs/reference/queue.md').matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm)].map(
    ([, name = '', rest = '']) => ({
      name,
      rest: rest.split('|').map((cell) => cell.trim()),
    }),
  )

  test('has each kind of lanes, with its numbers', () => {
    const shown = cells.flatMap(({ name, rest }) => (rest.length === 6 ? [[name, ...rest.slice(2, 5)]] : []))
    expect(shown).toEqual(
      Object.entries(laneKinds).map(([name, { atOnce, pause, leaseSeconds }]) => [
        name,
        String(atOnce),
        `${pause.first} s to ${pause.most} s`,
        `${leaseSeconds} s`,
      ]),
    )
  })

  test('has each recurring task, with its seconds', () => {
    const shown = cells.flatMap(({ name, rest }) =>
      rest.length === 1 ? [[name, Number.parseInt(rest[0] ?? '')]] : [],
    )
    expect(shown).toEqual(Object.entries(clock))
  })
})

describe('ARCHITECTURE.md', () => {
  /* The picture of src/calls and the folders of src/governance, compared with the imports of the code. */

  const source = join(root, 'src')
  const page = read('ARCHITECTURE.md')
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /^(governance|calls)\/.*\.ts$/.test(name),
  )

  /** The folder of a file, such as `audit`, `runs/end` or `src/calls`; null for a loose file, and elsewhere. */
  function folderOf(file: string): string | null {
    const [top, first = '', second = '', third] = file.split('/')
    if (top === 'calls') return 'src/calls'
    if (top !== 'governance') return null
    if (second === '') return null
    return third === undefined ? first : `${first}/${second}`
  }

  /** The folders that each folder imports from. */
  function importsOfFolders(): Map<string, Set<string>> {
    const found = new Map<string, Set<string>>()
    for (const file of files) {
      const folder = folderOf(file)
      if (folder === null) continue
      const targets = found.get(folder) ?? new Set<string>()
      found.set(folder, targets)
      const text = readFileSync(join(source, file), 'utf8')
      for (const [, path = ''] of text.matchAll(/ from '(\.[^']+)'/g)) {
        const to = folderOf(relative(source, resolve(dirname(join(source, file)), path)))
        if (to !== null && to !== folder) targets.add(to)
      }
    }
    return found
  }

  /** The direct imports that no chain of other imports implies, as lines `from --> to`. */
  function shortest(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] {
    const reaches = (from: string, to: string): boolean =>
      [...(imports.get(from) ?? [])].some((next) => next === to || reaches(next, to))
    return [...imports].flatMap(([from, targets]) =>
      [...targets]
        .filter((to) => ![...targets].some((other) => other !== to && reaches(other, to)))
        .map((to) => `${from} --> ${to}`),
    )
  }

  /** The arrows of the picture, with the folders' full names. */
  function drawn(): string[] {
    const picture = /flowchart TD\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
    const names = new Map(
      [...picture.matchAll(/(\w+)\[([\w/]+)\]/g)].map(([, short = '', full = '']) => [short, full] as const),
    )
    const named = (short: string): string => names.get(short) ?? short
    return [...picture.matchAll(/(\w+)(?:\[[\w/]+\])? --> (\w+)/g)].map(
      ([, from = '', to = '']) => `${named(from)} --> ${named(to)}`,
    )
  }

  test('the picture of the governance folders has every import, and no other arrow', () => {
    expect(drawn().toSorted()).toEqual(shortest(importsOfFolders()).toSorted())
  })

  test('the five loose files of src/governance are named', () => {
    const loose = files.filter((file) => folderOf(file) === null)
    expect(loose).toHaveLength(5)
    for (const file of loose) expect(page).toContain(`\`${file.replace('governance/', '')}\``)
  })
})

describe('docs/decisions', () => {
  const folder = join(root, 'docs/decisions')
  const records = readdirSync(folder).filter((name) => /^\d{4}-/.test(name))

  test.each(records)('%s has a numbered title and at most 150 words', (name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    expect(text).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. `))
    const words = text
      .replaceAll(/\]\([^)]*\)/g, ']')
      .split(/\s+/)
      .filter(Boolean)
    expect(words.length).toBeLessThanOrEqual(150)
  })

  test('the index names each record once, below a subject, in a few words', () => {
    const [, ...subjects] = readFileSync(join(folder, 'README.md'), 'utf8').split(/^## /m)
    const links = subjects.flatMap((text) => [...text.matchAll(/\[([^\]]+)\]\((\d{4}-[\w-]+\.md)\)/g)])
    expect(links.map(([, , file = '']) => file).toSorted()).toEqual(records.toSorted())
    expect(links.filter(([, words = '']) => words.split(' ').length > 7)).toEqual([])
  })
})

test('docs/encryption.md names every column with sealed values', () => {
  const page = read('docs/encryption.md')
  const named = [...page.matchAll(/`(\w+\.\w+)`/g)].map(([, name = '']) => name)
  const columns = sealedColumns.map(({ table, column }) => `${table}.${column}`)
  expect(columns.filter((name) => !named.includes(name))).toEqual([])
})

const errors = read('docs/reference/errors.md')

test('docs/reference/errors.md has every code with its status, and no other', () => {
  const rows = [...errors.matchAll(/^\| (\d{3}) +\| `(\w+)` +\|/gm)].map(([, status, code]) => [
    code,
    Number(status),
  ])
  expect(Object.fromEntries(rows)).toEqual(statusOf)
})

test('docs/reference/errors.md has the prefix of every id', () => {
  const line = /^- Ids have a prefix(?:.|\n)*?\. /m.exec(errors)?.[0] ?? ''
  const named = [...line.matchAll(/`(\w+)_`/g)].map(([, prefix = '']) => prefix)
  expect(named.toSorted()).toEqual(Object.values(idPrefixes).toSorted())
})

describe('docs/policies.md', () => {
  /* The tables of docs/policies.md. test/api/docs/docs.test.ts runs the commands of that page. */

  const page = read('docs/policies.md')
  const calls = [...page.matchAll(/^\| `(\w+)` +\| `(\w+)` +\| `(\{.*\})` +\| (allow|deny) +\|$/gm)].map(
    ([, tool = '', limit = '', params = '', answer]) => ({ tool, limit, params, answer }),
  )

  test('has eight calls', () => expect(calls).toHaveLength(8))

  test.each(calls)('$tool $params: $answer', ({ tool, limit, params, answer }) => {
    const restrictions = { allowed_repos: ['acme/app', 'labs/*'], allowed_channels: ['#releases', '@me'] }
    expect(Object.keys(restrictions)).toContain(limit)
    const policies = [{ toolName: tool, role: null, allowed: null, restrictions }]
    const access = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, (name) => getTool(name)?.constraints ?? {}) // prettier-ignore
    const call = {
      tool,
      role: 'member',
      sideEffect: 'read',
      params: JSON.parse(params) as JsonObject,
    } as const
    expect(access.refusal(call) === null ? 'allow' : 'deny').toBe(answer)
  })

  test('the table of limits has each limit', () => {
    const named = [...page.matchAll(/^\| `(\w+)` +\| [A-Z]/gm)].map(([, name = '']) => name)
    expect(named.sort()).toEqual([...limitNames].sort())
  })
})

const readme = read('README.md')

test('the README has at most 130 lines', () => {
  expect(readme.split('\n').length).toBeLessThanOrEqual(131)
})

/** The pages in docs that a page links, without those in folders. */
const linkedPages = (text: string): string[] => [
  ...new Set([...text.matchAll(/\]\((?:docs\/)?([\w-]+\.md)\)/g)].map(([, name = '']) => name)),
]

test('the doors of the README have at most twelve links, and a newcomer reads at most 20,000 words behind them', () => {
  const [, doors = ''] = /## Where to read on\n(.*?)\n## /s.exec(readme) ?? []
  expect(doors.match(/\]\(/g)?.length).toBeLessThanOrEqual(12)
  const pages = linkedPages(doors).filter((name) => !['README.md', 'ARCHITECTURE.md'].includes(name))
  expect(pages).toHaveLength(10)
  const words = [readme, ...pages.map((name) => read(`docs/${name}`))].join('\n').split(/\s+/)
  expect(words.length).toBeLessThanOrEqual(20_000)
})

test('docs/README.md links every page', () => {
  const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md') && name !== 'README.md')
  expect(pages.filter((name) => !linkedPages(read('docs/README.md')).includes(name))).toEqual([])
})

test("the README shows each step of the demo's output", () => {
  const titles = [...read('src/demo/story.ts').matchAll(/tell\.step\('(.*)'\)/g)].map(([, title]) => title)
  const shown = [...readme.matchAll(/^\d+\. (.*)$/gm)].map(([, title]) => title)
  expect(shown).toEqual(titles)
})

test('docs/configuration.md has every variable that the programs read', () => {
  const found = [...read('src/shared/environment.ts').matchAll(/^ +([A-Z][A-Z_]+): /gm)]
  const variables = new Set(found.map(([, name]) => name))
  const cells = [...read('docs/configuration.md').matchAll(/^\| (`[^|]*) \|/gm)].map(([, cell = '']) => cell)
  const listed = cells.flatMap(words)
  expect(new Set(listed)).toEqual(variables)
})

test('docs/configuration.md shows the default of each variable', () => {
  const rows = [...read('docs/configuration.md').matchAll(/^\| (`[^|]*) \| ([^|]*) \|/gm)]
  const defaults = Object.entries(readEnvironment({}).values).filter(
    ([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '',
  )
  expect(defaults.length).toBeGreaterThan(20)
  const isShown = ([name, value]: readonly [string, unknown]) =>
    rows.some(
      ([, names = '', shown = '']) => names.includes(`\`${name}\``) && shown.includes(`\`${String(value)}\``),
    )
  expect(defaults.filter((each) => !isShown(each))).toEqual([])
})

test('the rule of the README is a rule, and that of the tutorial', () => {
  const [, shown = ''] = /```json\n(.*?)```/s.exec(readme) ?? []
  const [, saved = ''] = /\/rules".*?-d '(.*?)'/s.exec(read('docs/tutorial.md')) ?? []
  expect(ruleInput.parse(JSON.parse(shown))).toEqual(ruleInput.parse(JSON.parse(saved)))
})

test('every command `npm run` of the pages exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const names = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    ...names.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ]
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/\bnpm run ([a-z][a-z:-]*)/g)].map(([, name = '']) => name),
  )
  expect(new Set(named).size).toBeGreaterThan(15)
  expect(named.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
})

describe('docs/rules.md', () => {
  /* The rules of docs/rules.md, saved as a reader would save them, each with its table of calls. */

  const page = read('docs/rules.md')
  const examples = page
    .split('```json rule\n')
    .slice(1)
    .map((text) => {
      const [json = '', rest = ''] = text.split('\n```\n', 2)
      const rule = ruleInput.parse(JSON.parse(json))
      const [table = ''] = rest.split(/\n\n(?!\|)/, 2)
      const rows = [...table.matchAll(/^\|(?: `([\w-]+)`)? *\| `(\{.*\}|[a-z\d.:-]+)` *\| (\w+) *\|$/gm)]
      return { rule, rows: rows.map(([, of, what = '', verdict]) => ({ of, what, verdict })) }
    })

  test('every example has calls', () => {
    expect(examples.map(({ rows }) => rows.length)).toEqual([7, 3, 3, 5, 3, 3, 3])
  })

  describe.each(examples)('$rule.name', ({ rule, rows }) => {
    const policy = compilePolicy({
      rules: [{ ...rule, id: 'rule_1' }],
      labelRules: [],
      approvalsEnabled: true,
    })

    // The first column has a label of an agent's call, or the tool of a workflow's call. The second column has the
    // parameters, or the host to which the call goes.
    test.each(rows)('$of $what: $verdict', ({ of, what, verdict }) => {
      const call =
        of !== undefined && getTool(of) !== undefined
          ? ({ source: 'workflows', tool: of, labels: [] } as const)
          : ({ source: 'agents', tool: 'mail_send', labels: of === undefined ? [] : [of] } as const)
      const params = what.startsWith('{') ? (JSON.parse(what) as JsonObject) : {}
      const given = { sideEffect: 'egress', params, destination: what.startsWith('{') ? null : what } as const
      expect(decide(policy, { ...call, ...given }).verdict).toBe(verdict)
    })
  })
})

describe('docs/tools.md', () => {
  const page = read('docs/tools.md')
  const afterCrash = (tool: string): string | undefined =>
    new RegExp(`^\\| \`${tool}\` .*`, 'gm').exec(page.slice(page.indexOf('A crash leaves')))?.[0]

  test('a mail through Resend leaves no promise that the fault table does not keep', () => {
    const ends = Object.values(mail.tools.mail_send?.differs ?? {})
    expect(ends.map(({ state }) => state)).toContain('unknown_outcome')
    expect(afterCrash('mail_send')).toMatch(
      /with a connection to `mail` .* for 23 hours, and a person decides/,
    )
  })

  test.each(assumptions)('$service: $what', ({ page: address, withoutPage }) => {
    if (address === null) expect(withoutPage).toMatch(/^\S.{20,}\.$/)
    else expect([new URL(address).protocol, withoutPage]).toEqual(['https:', undefined])
  })

  const assumed = services.flatMap((service) => [
    titleOf(service),
    ...service.assumptions.flatMap((each) => each.service ?? []),
  ])
  test.each([...new Set(assumed)].filter((name) => name !== 'Google'))(
    'there is an assumption about the limits of %s',
    (name) => {
      const ofLimits = assumptions.filter(
        ({ service, what }) => service === name && /\b(?:403|429)\b/.test(what),
      )
      expect(ofLimits).not.toEqual([])
    },
  )
})

const tools = Object.values(catalog) as ToolDeclaration[]

test('the table of risks in docs/reference/plans.md names tools at their own risk', () => {
  const rows = [...read('docs/reference/plans.md').matchAll(/^\| `(low|medium|high)` +\| ([^|]*)\|$/gm)]
  const said = rows.flatMap(([, risk, cell = '']) => words(cell).map((name) => [name, risk]))
  const risks = Object.fromEntries(tools.map(({ name, risk }) => [name, risk]))
  expect(said.map(([name]) => [name, risks[name ?? '']])).toEqual(said)
  expect(said.length).toBeGreaterThan(5)
})

test('docs/expressions.md has every function as it is written', () => {
  const page = read('docs/expressions.md')
  for (const { written } of Object.values(shapes)) expect(page).toContain(`\`${written}\``)
})

test('docs/workflows.md names every category that tools of the catalogue have', () => {
  const categories = new Set(tools.flatMap((tool) => [...tool.categories]))
  const named = [
    ...read('docs/workflows.md').matchAll(/^\| `require_approval_for_\w+` .*`(\w+)` +\|$/gm),
  ].map(([, name]) => name)
  expect(new Set(named)).toEqual(categories)
})
