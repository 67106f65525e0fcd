import { describe } from '@jest/globals'
import { cedarOracle } from './cedar.ts'
import { oracleSuite } from './suite.ts'

describe('Cedar', () => {
  oracleSuite(() => Promise.resolve(cedarOracle))
})
