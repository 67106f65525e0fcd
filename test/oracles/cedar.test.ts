import { describe } from '@jest/globals'
import { cedarLabelOracle, cedarOracle } from './cedar.ts'
import { labelSuite } from './label-suite.ts'
import { planSuite } from './plan-suite.ts'
import { oracleSuite } from './suite.ts'

describe('Cedar', () => {
  oracleSuite(() => Promise.resolve(cedarOracle))
})

describe('Cedar on label rules', () => {
  labelSuite(() => Promise.resolve(cedarLabelOracle))
})

describe('Cedar on plans', () => {
  planSuite(() => Promise.resolve(cedarOracle))
})
