import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { readTemporalConfig, temporalArguments } from '../../src/stack/temporal-config.ts'
import { temporaryFolder } from './temporary-folder.ts'

const yml = new URL('../../temporal-dev.yml', import.meta.url)

/** The values given with a flag, in order. */
function valuesOf(args: readonly string[], flag: string): string[] {
  return args.flatMap((arg, index) => (arg === flag ? [args[index + 1] ?? ''] : []))
}

function changed(from: string, to: string): string {
  const path = join(temporaryFolder(), 'temporal-dev.yml')
  const text = readFileSync(yml, 'utf8')
  expect(text).toContain(from)
  writeFileSync(path, text.replace(from, to))
  return path
}

describe('temporal-dev.yml', () => {
  const config = readTemporalConfig()

  test('becomes the arguments of a server that keeps its histories', () => {
    const args = temporalArguments(config, { port: 71, uiPort: 72, database: '/data/temporal.db' })
    expect(args.slice(0, 2)).toEqual(['server', 'start-dev'])
    expect(valuesOf(args, '--ip')).toEqual(['127.0.0.1'])
    expect(valuesOf(args, '--port')).toEqual(['71'])
    expect(valuesOf(args, '--ui-port')).toEqual(['72'])
    expect(valuesOf(args, '--namespace')).toEqual(['default'])
    expect(valuesOf(args, '--db-filename')).toEqual(['/data/temporal.db'])
    expect(valuesOf(args, '--dynamic-config-value')).toEqual([
      'history.transferProcessorMaxPollRPS=2000',
      'history.timerProcessorMaxPollRPS=2000',
      'history.visibilityProcessorMaxPollRPS=2000',
      'matching.enableFairness=true',
      'matching.numTaskqueueReadPartitions=1',
      'matching.numTaskqueueWritePartitions=1',
    ])
    expect(valuesOf(args, '--sqlite-pragma')).toEqual(['journal_mode=wal', 'synchronous=normal'])
    expect(valuesOf(args, '--search-attribute')).toEqual([
      'CountersignOrganization=Keyword',
      'CountersignWorkflow=Keyword',
      'CountersignWorkflowName=Keyword',
      'CountersignVersion=Int',
      'CountersignState=Keyword',
      'CountersignWaitingOn=KeywordList',
      'CountersignRisk=Keyword',
    ])
  })

  test('a server in memory has no file, no pragmas and no web interface', () => {
    const args = temporalArguments(config, { port: 71, uiPort: 72, database: null, ui: false })
    expect(args).toContain('--headless')
    for (const flag of ['--db-filename', '--sqlite-pragma', '--ui-port']) expect(args).not.toContain(flag)
    expect(valuesOf(args, '--dynamic-config-value')).toHaveLength(6)
  })

  test('dynamic text values are quoted as JSON', () => {
    const args = temporalArguments({ ...config, dynamic_config: { a: 'x', b: true } }, { port: 1, uiPort: 2, database: null }) // prettier-ignore
    expect(valuesOf(args, '--dynamic-config-value')).toEqual(['a="x"', 'b=true'])
  })

  test.each([
    ['a misspelt section', 'dynamic_config:', 'dynamic_confg:', 'dynamic_confg'],
    ['an impossible port', 'grpc: 0', 'grpc: 70000', 'ports.grpc'],
    ['an unknown attribute type', 'Risk: Keyword', 'Risk: Keywort', 'search_attributes.CountersignRisk'],
    ['a namespace that is an option', 'namespace: default', 'namespace: --help', 'namespace'],
  ])('%s is refused by name', (_, from, to, name) => {
    expect(() => readTemporalConfig(changed(from, to))).toThrow(name)
  })
})
