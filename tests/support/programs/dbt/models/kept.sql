{{ config(materialized='materialized_view') }}
select mood, max(joined) as last from {{ ref('customers') }} group by mood
