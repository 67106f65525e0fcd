import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { Sources } from '../../../src/console/parts/sources.ts'

const words = (from: readonly string[], isAgents = false): string =>
  renderToString(h(Sources, { from, isAgents })).replaceAll(/<[^>]*>/g, '')

test.each([
  [['read'], 'from step read'],
  [['input.topic', 'read'], 'from input topic, step read'],
  [['run_01M84JRMXWJCN4SAPKWPR67K5S/read'], 'from step read of another run'],
  [['file_01M84JRMXWJCN4SAPKWPR67K5S'], 'from file file_01M84JRMXWJCN4SAPKWPR67K5S'],
  [['a', 'b', 'c', 'd', 'e', 'f', 'g'], 'from step a, step b, step c, step d, step e and 2 more'],
  [[], ''],
])('the sources %j of a run are “%s”', (from, text) => {
  expect(words(from)).toBe(text)
})

test('the sources of an agent are tools, whatever their names', () => {
  expect(words(['Read', 'input.x'], true)).toBe('from tool Read, tool input.x')
})
