{{ config(materialized="table", indexes=[{"columns": ["mood"], "unique": true}]) }}
select coalesce(mood, 'none') as mood, count(*) as customers, sum(paid) as paid from {{ ref('customers') }} group by 1
