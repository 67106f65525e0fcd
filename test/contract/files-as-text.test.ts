import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import { withFilesAsText } from '../../src/contract/files-as-text.ts'
import { resolve } from '../../src/policy/templates.ts'
import type { JsonObject } from '../../src/policy/types.ts'

const files = [
  { id: 'file_1', name: 'a.pdf', text: 'one' },
  { id: 'file_2', name: 'b.csv', text: 'two' },
]
const text = 'File: a.pdf\n\none\n\nFile: b.csv\n\ntwo'
const filled = (tool: string, params: JsonObject) =>
  resolve(withFilesAsText(getTool(tool) as ToolDeclaration, params), {
    inputs: { uploaded_files: files },
    step: () => undefined,
    today: '',
    yesterday: '',
    now: '',
  }).value

describe('the files of a run as a whole parameter', () => {
  test('are their text where a parameter takes only text', () => {
    expect(filled('llm_generate', { prompt: '{{input.uploaded_files}}' })).toEqual({ prompt: text })
    expect(filled('mail_send', { text: '{{ input.uploaded_files }}', to: 'me' })).toEqual({ text, to: 'me' })
  })
  test('are a list where a parameter takes any value', () => {
    expect(filled('memory_set', { key: 'k', value: '{{input.uploaded_files}}' })).toEqual({
      key: 'k',
      value: files,
    })
  })
  test('lead to their parts', () => {
    expect(filled('llm_generate', { prompt: '{{input.uploaded_files[1].text}}' })).toEqual({ prompt: 'two' })
  })
})
